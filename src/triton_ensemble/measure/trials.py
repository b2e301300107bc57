"""Trials of settings: which are better, and why the others are rejected."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from triton_ensemble.measure.figures import Load
from triton_ensemble.measure.tune_settings import Settings, describe

LEAST_GAIN = 1.03  # less is not worth a line of pipeline.yml
FAILED = 1e-12  # the value of a load with errors


class RefusedError(RuntimeError):
    """Raised for settings that Triton does not load, or that fail a smoke test, with the reason."""


class TooShortError(RuntimeError):
    """Raised when time is over before settings were compared.

    `needed_s` seconds would be enough, or it is 0 if that is not known.
    """

    def __init__(self, needed_s: float = 0.0) -> None:
        self.needed_s = needed_s


@dataclass(frozen=True)
class Objective:
    """The highest throughput, or with a limit, the lowest p50 among those whose p99 is within it."""

    p99_us: float | None = None

    def is_met(self, *loads: Load) -> bool:
        """Return whether all requests succeeded, and the median p99 is within the limit."""
        p99_us = statistics.median(load.p99_us for load in loads)
        return all(map(_has_succeeded, loads)) and p99_us <= (self.p99_us or math.inf)

    def gains(self, new: Sequence[Load], old: Sequence[Load]) -> list[float]:
        """Return how much better each of `new` is than its partner in `old`, as logarithms of ratios.

        The limit comes first: if either exceeds it, their p99 are compared.
        """
        within = self.is_met(*new) and self.is_met(*old)
        pairs = zip(new, old, strict=True)
        return [math.log(self._value(n, within) / self._value(o, within)) for n, o in pairs]

    def _value(self, load: Load, within: bool) -> float:
        if not _has_succeeded(load):
            return FAILED
        if self.p99_us is None:
            return load.throughput
        return 1 / (load.p50_us if within else load.p99_us)

    def why_not(self, new: Sequence[Load], old: Sequence[Load]) -> str:
        """Return why `new` does not replace `old`."""
        in_one_run = " in one run" * (len(new) == 1)
        if not all(map(_has_succeeded, new)):
            return f"requests failed{in_one_run}"
        if not self.is_met(*new):
            return f"p99 over the limit{in_one_run}"
        gain = math.expm1(statistics.fmean(self.gains(new, old)))
        if gain <= 0:
            return f"{-gain:.0%} behind{in_one_run}"
        return f"{gain:.0%} ahead{in_one_run}: {'not confirmed' if in_one_run else 'within noise'}"

    def __str__(self) -> str:
        limit = self.p99_us
        return "highest throughput" if limit is None else f"lowest p50, p99 <= {limit / 1000:g} ms"


def _has_succeeded(load: Load) -> bool:
    return not load.failed and load.throughput > 0


def is_beyond_noise(gains: Sequence[float]) -> bool:
    """Return whether the mean of logarithms of ratios is a gain, by about two standard errors."""
    error = statistics.stdev(gains) / math.sqrt(len(gains))
    return statistics.fmean(gains) > max(math.log(LEAST_GAIN), 2 * error)


@dataclass
class Trial:
    """The loads of some settings, and why they are rejected: `refused` for good, `behind` in their last comparison."""

    settings: Settings
    loads: list[Load] = field(default_factory=list)
    refused: str = ""
    behind: str = ""

    @property
    def note(self) -> str:
        """Why the settings are rejected."""
        return f"refused: {self.refused}" if self.refused else self.behind

    def median(self, value: Callable[[Load], float]) -> float:
        """Return the median of a value of the loads, or NaN without any."""
        return statistics.median(map(value, self.loads)) if self.loads else math.nan


def table(trials: Iterable[Trial], kept: Settings) -> list[str]:
    """Return a line for each trial: medians of its measurements, and why it is rejected."""
    head = f"{'requests/s':>11} {'p50 ms':>8} {'p99 ms':>8} {'runs':>5}  settings"
    return [head, *(_row(trial, trial.settings == kept) for trial in trials)]


def _row(trial: Trial, is_best: bool) -> str:
    throughput = trial.median(lambda load: load.throughput)
    p50_ms, p99_ms = (trial.median(attrgetter(name)) / 1000 for name in ("p50_us", "p99_us"))
    figures = f"{throughput:11.1f} {p50_ms:8.2f} {p99_ms:8.2f} {len(trial.loads):5}"
    note = f"  ({trial.note})" if trial.note else ""
    return f"{figures}  {describe(trial.settings)}{'  <- best' if is_best else note}"
