# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The search for better settings, by measurements that are short and noisy.

One setting after the other is tried in all its values, the others as they are best so far. Values
that are behind in a short window drop out, half of them at a time, while the windows grow. The
last one then meets the settings that it would replace in turn, several times, and replaces them
only where it is ahead by more than these measurements differ among themselves.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tools.load.figures import Load
from tools.tuning.knobs import Knob, Settings, changed, describe

PAIRS = 4
LEAST_GAIN = 1.03  # less is not worth a line of pipeline.yml


class RefusedError(RuntimeError):
    """Triton does not load the settings, or they fail a smoke test: its text says why."""


@dataclass(frozen=True)
class Objective:
    """The highest throughput, or with a limit, the lowest p50 among those whose p99 is within it."""

    p99_us: float | None = None

    def score(self, load: Load) -> float:
        """Higher is better; far lower, where a request failed or the limit is exceeded."""
        if load.failed or not load.throughput:
            return 1e-12
        if self.p99_us is None:
            return load.throughput
        return 1 / load.p50_us if load.p99_us <= self.p99_us else 1e-6 / load.p99_us

    def met(self, load: Load) -> bool:
        return not load.failed and load.p99_us <= (self.p99_us or math.inf)

    def __str__(self) -> str:
        limit = self.p99_us
        return "highest throughput" if limit is None else f"lowest p50, p99 <= {limit / 1000:g} ms"


@dataclass
class Trial:
    """What was measured of some settings, and why they are out if they are."""

    settings: Settings
    loads: list[Load] = field(default_factory=list)
    refused: str = ""

    def median(self, value: Callable[[Load], float]) -> float:
        return statistics.median(map(value, self.loads)) if self.loads else math.nan


class Search:
    """`measure` tries settings for some seconds; `accept` raises RefusedError for those that are wrong.

    Stops before `deadline`, a time of time.monotonic(); `window` seconds is the shortest measurement.
    """

    def __init__(
        self,
        objective: Objective,
        measure: Callable[[Settings, float], Load],
        accept: Callable[[Settings], None],
        deadline: float,
        window: float = 1.0,
        say: Callable[[str], None] = print,
    ) -> None:
        self.objective, self.say = objective, say
        self.trials: list[Trial] = []
        self._measure, self._accept = measure, accept
        self._deadline, self._window = deadline, window
        self._most_s = 2 * window  # that a measurement of one window has taken

    def run(self, knobs: Sequence[Knob]) -> Settings:
        """The best settings found, which beat the present ones once more; {}: the present ones."""
        best: Settings = {}
        improved = True
        while improved and self._in_time():
            improved = False
            for knob in knobs:
                found = self._best_value(knob, best)
                improved |= found != best
                best = found
        return best if best and self._beats(best, {}) else {}

    def _best_value(self, knob: Knob, best: Settings) -> Settings:
        now = best.get(knob, knob.present)
        others = [changed(best, knob, value) for value in knob.values if value != now]
        challenger = self._halved(best, others)
        if not self._in_time():
            return best
        if challenger is None or not self._wins(challenger, best):
            self.say(f"{knob}: stays {_shown(now)}")
            return best
        self.say(f"{knob}: {_shown(now)} -> {_shown(challenger.get(knob, knob.present))}")
        return challenger

    def _halved(self, best: Settings, others: list[Settings]) -> Settings | None:
        """The one of `others` that is ahead of `best` in the last of growing windows, if any is."""
        window = self._window
        while others and self._in_time():
            mark = self._score(best, window)
            scores = {id(other): self._score(other, window) for other in others}
            ahead = [other for other in others if scores[id(other)] > mark]
            ahead.sort(key=lambda other: -scores[id(other)])
            if len(ahead) <= 1:
                return ahead[0] if ahead else None
            others, window = ahead[: math.ceil(len(others) / 2)], window * 2
            if len(others) == 1:
                return others[0]
        return None

    def _wins(self, challenger: Settings, best: Settings) -> bool:
        if not self._beats(challenger, best):
            return False
        try:
            self._accept(challenger)
        except RefusedError as error:
            self.trial(challenger).refused = str(error)
            return False
        return True

    def _beats(self, challenger: Settings, best: Settings) -> bool:
        """Whether it is ahead by more than noise, in pairs of measurements one after the other."""
        gains = []
        for i in range(PAIRS):
            pair = [challenger, best] if i % 2 else [best, challenger]
            scores = {id(settings): self._score(settings, 2 * self._window) for settings in pair}
            gains.append(math.log(scores[id(challenger)] / scores[id(best)]))
        return beyond_noise(gains)

    def trial(self, settings: Settings) -> Trial:
        for trial in self.trials:
            if trial.settings == settings:
                return trial
        self.trials.append(Trial(settings))
        return self.trials[-1]

    def _score(self, settings: Settings, seconds: float) -> float:
        trial = self.trial(settings)
        if trial.refused:
            return 1e-12
        start = time.monotonic()
        try:
            trial.loads.append(self._measure(settings, seconds))
        except RefusedError as error:
            trial.refused = str(error)
            return 1e-12
        took = time.monotonic() - start - seconds + self._window
        self._most_s = max(self._most_s * 0.9, took)
        return self.objective.score(trial.loads[-1])

    def _in_time(self) -> bool:
        """Whether a challenger can still be compared with the best, and the best with the present."""
        comparison_s = 2 * PAIRS * (self._most_s + self._window)
        return time.monotonic() + 2 * comparison_s < self._deadline


def beyond_noise(gains: Sequence[float]) -> bool:
    """Whether the mean of logarithms of ratios is a gain, at about two standard errors."""
    error = statistics.stdev(gains) / math.sqrt(len(gains))
    return statistics.fmean(gains) > max(math.log(LEAST_GAIN), 2 * error)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def table(trials: Iterable[Trial], kept: Settings) -> list[str]:
    """A line for each settings, with the medians of its measurements."""
    lines = [f"{'requests/s':>11} {'p50 ms':>8} {'p99 ms':>8} {'runs':>5}  settings"]
    for trial in trials:
        throughput = trial.median(lambda load: load.throughput)
        p50, p99 = (trial.median(lambda load, p=p: getattr(load, p) / 1000) for p in PERCENTILES)  # type: ignore[misc]
        note = f"  (refused: {trial.refused})" if trial.refused else ""
        mark = "  <- best" if trial.settings == kept else note
        runs = len(trial.loads)
        lines.append(
            f"{throughput:11.1f} {p50:8.2f} {p99:8.2f} {runs:5}  {describe(trial.settings)}{mark}"
        )
    return lines


PERCENTILES = ("p50_us", "p99_us")
