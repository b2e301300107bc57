"""Coordinate search with successive halving, on measurements that are short and noisy.

One setting after the other is tried in all its values, the others at their best so far. Values that are behind in a
short window drop out, half of them at a time, while the windows grow. The last one is then measured in pairs with the
settings that it would replace, and replaces them only if it is ahead by more than these measurements differ among
themselves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from triton_ensemble.measure.figures import Load
from triton_ensemble.measure.trials import (
    Objective,
    RefusedError,
    Trial,
    is_beyond_noise,
)
from triton_ensemble.measure.tune_settings import (
    Setting,
    Settings,
    change_setting,
    word,
)

PAIRS = 4
LONGEST_S = 5.0
NOTHING = Load(0, 0.0, 0.0, 0.0, 0.0)  # of settings that Triton refuses


class Search:
    """A search for the best settings, which `measure` measures for some seconds.

    `accept` has the last word on settings that are better. Both callables raise RefusedError for wrong settings. The
    search ends before `deadline`, a time of time.monotonic(). It makes its measurements as long as that allows, but
    none shorter than `window` seconds. `tried` are the settings whose best value is known, the others being as they
    were then.
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
        self.objective, self._say = objective, say
        self.trials: list[Trial] = []
        self.tried: set[Setting] = set()
        self._measure, self._accept = measure, accept
        self._deadline, self._least, self._window = deadline, window, window
        self._overheads_s: list[float] = []  # loading models, warming them up

    def run(self, settings: Sequence[Setting]) -> Settings:
        """Return the best settings, which beat the present ones once more, or {} for the present ones."""
        best: Settings = {}
        self._load(best, self._least)
        improved = True
        while improved:
            improved, self._window = False, LONGEST_S
            for i, setting in enumerate(settings):
                self._window = min(self._window, self._find_fitting(settings[i:]))
                if not self._has_time(len(setting.values), self._least):
                    continue
                before, best = best, self._find_best_value(setting, best)
                self.tried.add(setting)
                improved |= before != best
        return best if best and self._beats(best, {}) else {}

    def seconds(self, settings: Sequence[Setting]) -> float:
        """Return the time that settings take, in the shortest measurements."""
        measurements, windows = _work(settings)
        return measurements * self._overhead_s() + windows * self._least

    def _find_fitting(self, settings: Sequence[Setting]) -> float:
        """Return the window with which settings take all the time that is left."""
        measurements, windows = _work(settings)
        left_s = self._deadline - time.monotonic() - measurements * self._overhead_s()
        return max(left_s / windows, self._least)

    def _overhead_s(self) -> float:
        return sum(self._overheads_s) / max(len(self._overheads_s), 1)

    def _has_time(self, windows: int, window: float) -> bool:
        """Return whether there is time for so many windows, a comparison with the best, and one with the present."""
        overhead = self._overhead_s()
        comparison_s = 2 * PAIRS * (overhead + 2 * window)
        needed_s = windows * (overhead + window) + 2 * comparison_s
        return time.monotonic() + needed_s < self._deadline

    def _find_best_value(self, setting: Setting, best: Settings) -> Settings:
        now = best.get(setting, setting.present)
        others = [change_setting(best, setting, value) for value in setting.values if value != now]
        challenger = self._halve(best, others)
        if challenger is None or not self._wins(challenger, best):
            self._say(f"{setting}: stays {word(now)}")
            return best
        self._say(f"{setting}: {word(now)} -> {word(challenger.get(setting, setting.present))}")
        return challenger

    def _halve(self, best: Settings, others: list[Settings]) -> Settings | None:
        """Return the setting among `others` that is ahead of `best` in the last of growing windows, or None."""
        window = self._window
        while others:
            ahead = self._ahead(best, others, window)
            half = math.ceil(len(others) / 2)
            if len(ahead) <= 1 or half == 1 or not self._has_time(2 * (half + 1), window):
                return ahead[0] if ahead else None
            others, window = ahead[:half], window * 2
        return None

    def _ahead(self, best: Settings, others: list[Settings], window: float) -> list[Settings]:
        """Return the settings that are ahead of `best` in a measurement of each, the best first."""
        baseline = self._load(best, window)
        gains = []
        for other in others:
            load = self._load(other, window)
            self.trial(other).behind = self.objective.why_not([load], [baseline])
            gains.append((self.objective.gains([load], [baseline])[0], other))
        gains.sort(key=lambda gain: -gain[0])
        return [other for gain, other in gains if gain > 0]

    def _wins(self, challenger: Settings, best: Settings) -> bool:
        if not self._beats(challenger, best):
            return False
        try:
            self._accept(challenger)
        except RefusedError as error:
            self.trial(challenger).refused = str(error)
            return False
        self.trial(best).behind = "overtaken"
        return True

    def _beats(self, challenger: Settings, best: Settings) -> bool:
        """Return whether `challenger` is ahead of `best` by more than noise, in pairs of measurements.

        The measurements of a pair follow each other.
        """
        new: list[Load] = []
        old: list[Load] = []
        for i in range(PAIRS):
            pair = [(best, old), (challenger, new)]
            for settings, loads in reversed(pair) if i % 2 else pair:
                loads.append(self._load(settings, 2 * self._window))
            if i and max(self.objective.gains(new, old)) <= 0:
                break  # it won't win any more
        self.trial(challenger).behind = self.objective.why_not(new, old)
        return is_beyond_noise(self.objective.gains(new, old))

    def trial(self, settings: Settings) -> Trial:
        """Return the trial of settings, a new one if there is none yet."""
        for trial in self.trials:
            if trial.settings == settings:
                return trial
        self.trials.append(Trial(settings))
        return self.trials[-1]

    def _load(self, settings: Settings, seconds: float) -> Load:
        trial = self.trial(settings)
        if trial.refused:
            return NOTHING
        start = time.monotonic()
        try:
            load = self._measure(settings, seconds)
        except RefusedError as error:
            trial.refused = str(error)
            return NOTHING
        self._overheads_s.append(max(time.monotonic() - start - seconds, 0))
        trial.loads.append(load)
        return load


def _work(settings: Sequence[Setting]) -> tuple[int, int]:
    """Return the measurements of settings, and their length in windows, if every second one has a value to compare."""
    values = sum(len(setting.values) for setting in settings)
    compared = 2 * PAIRS * (len(settings) // 2 + 2)
    return values + compared, values + 2 * compared
