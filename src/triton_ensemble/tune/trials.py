"""Settings that were measured: which of them are better, and why the others are out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from triton_ensemble.bench.figures import Load
from triton_ensemble.tune.knobs import Settings, describe

LEAST_GAIN = 1.03  # less is not worth a line of pipeline.yml
NONE = 1e-12  # the worth of a load that failed


class RefusedError(RuntimeError):
    """Triton does not load the settings, or they fail a smoke test: its text says why."""


class TooShortError(RuntimeError):
    """The time is over before settings could be compared, for which `needed_s` would do, if that is known."""

    def __init__(self, needed_s: float = 0.0) -> None:
        self.needed_s = needed_s


@dataclass(frozen=True)
class Objective:
    """The highest throughput, or with a limit, the lowest p50 among those whose p99 is within it."""

    p99_us: float | None = None

    def met(self, *loads: Load) -> bool:
        """Whether all requests succeeded, and the median p99 is within the limit."""
        p99_us = statistics.median(load.p99_us for load in loads)
        return all(map(_succeeded, loads)) and p99_us <= (self.p99_us or math.inf)

    def gains(self, new: Sequence[Load], old: Sequence[Load]) -> list[float]:
        """How far each of `new` is ahead of the one of `old` beside it, as logarithms of ratios.

        The limit comes first: where one of both exceeds it, the p99 is compared.
        """
        worth = self._worth(within=self.met(*new) and self.met(*old))
        return [math.log(worth(n) / worth(o)) for n, o in zip(new, old, strict=True)]

    def _worth(self, *, within: bool) -> Callable[[Load], float]:
        def worth(load: Load) -> float:
            if not _succeeded(load):
                return NONE
            if self.p99_us is None:
                return load.throughput
            return 1 / (load.p50_us if within else load.p99_us)

        return worth

    def why_not(self, new: Sequence[Load], old: Sequence[Load]) -> str:
        """Why `new` does not replace `old`."""
        in_one_run = " in one run" * (len(new) == 1)
        if not all(map(_succeeded, new)):
            return f"requests failed{in_one_run}"
        if not self.met(*new):
            return f"p99 over the limit{in_one_run}"
        gain = math.expm1(statistics.fmean(self.gains(new, old)))
        if gain <= 0:
            return f"{-gain:.0%} behind{in_one_run}"
        return f"{gain:.0%} ahead{in_one_run}: {'not confirmed' if in_one_run else 'within noise'}"

    def __str__(self) -> str:
        limit = self.p99_us
        return "highest throughput" if limit is None else f"lowest p50, p99 <= {limit / 1000:g} ms"


def _succeeded(load: Load) -> bool:
    return not load.failed and load.throughput > 0


def beyond_noise(gains: Sequence[float]) -> bool:
    """Whether the mean of logarithms of ratios is a gain, at about two standard errors."""
    error = statistics.stdev(gains) / math.sqrt(len(gains))
    return statistics.fmean(gains) > max(math.log(LEAST_GAIN), 2 * error)


@dataclass
class Trial:
    """What was measured of some settings, and why they are out: `refused` for good, `behind` by their last comparison."""

    settings: Settings
    loads: list[Load] = field(default_factory=list)
    refused: str = ""
    behind: str = ""

    @property
    def note(self) -> str:
        return f"refused: {self.refused}" if self.refused else self.behind

    def median(self, value: Callable[[Load], float]) -> float:
        return statistics.median(map(value, self.loads)) if self.loads else math.nan


def table(trials: Iterable[Trial], kept: Settings) -> list[str]:
    """A line for each settings, with the medians of its measurements, and why it is out."""
    lines = [f"{'requests/s':>11} {'p50 ms':>8} {'p99 ms':>8} {'runs':>5}  settings"]
    for trial in trials:
        throughput = trial.median(lambda load: load.throughput)
        p50, p99 = (trial.median(lambda load, p=p: getattr(load, p) / 1000) for p in PERCENTILES)  # type: ignore[misc]
        note = f"  ({trial.note})" if trial.note else ""
        mark = "  <- best" if trial.settings == kept else note
        runs = len(trial.loads)
        lines.append(
            f"{throughput:11.1f} {p50:8.2f} {p99:8.2f} {runs:5}  {describe(trial.settings)}{mark}"
        )
    return lines


PERCENTILES = ("p50_us", "p99_us")
