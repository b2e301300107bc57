"""The search for better settings, by measurements that are short and noisy.

One setting after the other is tried in all its values, the others as they are best so far. Values
that are behind in a short window drop out, half of them at a time, while the windows grow. The
last one then meets the settings that it would replace in turn, several times, and replaces them
only where it is ahead by more than these measurements differ among themselves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from triton_ensemble.bench.figures import Load
from triton_ensemble.tune.knobs import Knob, Settings, changed
from triton_ensemble.tune.trials import Objective, RefusedError, Trial, beyond_noise

PAIRS = 4
LONGEST_S = 5.0
NOTHING = Load(0, 0.0, 0.0, 0.0, 0.0)  # of settings that Triton refuses


class Search:
    """`measure` tries settings for some seconds; `accept` raises RefusedError for those that are wrong.

    Ends before `deadline`, a time of time.monotonic(), and makes its measurements as long as that
    allows, but none shorter than `window` seconds. `tried` are the knobs of which it knows the best
    value, where the others are as they were then.
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
        self.tried: set[Knob] = set()
        self._measure, self._accept = measure, accept
        self._deadline, self._least, self._window = deadline, window, window
        self._overheads_s: list[float] = []  # loading models, warming them up

    def run(self, knobs: Sequence[Knob]) -> Settings:
        """The best settings found, which beat the present ones once more; {}: the present ones."""
        best: Settings = {}
        self._load(best, self._least)
        improved = True
        while improved:
            improved, self._window = False, LONGEST_S
            for i, knob in enumerate(knobs):
                self._window = min(self._window, self._fitting(knobs[i:]))
                if not self._in_time(len(knob.values), self._least):
                    continue
                found = self._best_value(knob, best)
                self.tried.add(knob)
                improved |= found != best
                best = found
        return best if best and self._beats(best, {}) else {}

    def seconds(self, knobs: Sequence[Knob]) -> float:
        """That all of them take, in the shortest measurements."""
        measurements, windows = _work(knobs)
        return measurements * self._overhead_s() + windows * self._least

    def _fitting(self, knobs: Sequence[Knob]) -> float:
        """The window with which they take all the time that is left."""
        measurements, windows = _work(knobs)
        left_s = self._deadline - time.monotonic() - measurements * self._overhead_s()
        return max(left_s / windows, self._least)

    def _overhead_s(self) -> float:
        return sum(self._overheads_s) / max(len(self._overheads_s), 1)

    def _in_time(self, windows: int, window: float) -> bool:
        """Whether so many can be measured, one more be compared with the best, and the best with the present."""
        overhead = self._overhead_s()
        comparison_s = 2 * PAIRS * (overhead + 2 * window)
        needed_s = windows * (overhead + window) + 2 * comparison_s
        return time.monotonic() + needed_s < self._deadline

    def _best_value(self, knob: Knob, best: Settings) -> Settings:
        now = best.get(knob, knob.present)
        others = [changed(best, knob, value) for value in knob.values if value != now]
        challenger = self._halved(best, others)
        if challenger is None or not self._wins(challenger, best):
            self.say(f"{knob}: stays {_shown(now)}")
            return best
        self.say(f"{knob}: {_shown(now)} -> {_shown(challenger.get(knob, knob.present))}")
        return challenger

    def _halved(self, best: Settings, others: list[Settings]) -> Settings | None:
        """The one of `others` that is ahead of `best` in the last of growing windows, if any is."""
        window = self._window
        while others:
            ahead = self._ahead(best, others, window)
            half = math.ceil(len(others) / 2)
            if len(ahead) <= 1 or half == 1 or not self._in_time(2 * (half + 1), window):
                return ahead[0] if ahead else None
            others, window = ahead[:half], window * 2
        return None

    def _ahead(self, best: Settings, others: list[Settings], window: float) -> list[Settings]:
        """Those that are ahead of `best` in a measurement of each, the foremost first."""
        mark = self._load(best, window)
        gains = []
        for other in others:
            load = self._load(other, window)
            self.trial(other).behind = self.objective.why_not([load], [mark])
            gains.append((self.objective.gains([load], [mark])[0], other))
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
        """Whether it is ahead by more than noise, in pairs of measurements one after the other."""
        new: list[Load] = []
        old: list[Load] = []
        for i in range(PAIRS):
            pair = [(best, old), (challenger, new)]
            for settings, loads in reversed(pair) if i % 2 else pair:
                loads.append(self._load(settings, 2 * self._window))
            if i and max(self.objective.gains(new, old)) <= 0:
                break  # it won't win any more
        self.trial(challenger).behind = self.objective.why_not(new, old)
        return beyond_noise(self.objective.gains(new, old))

    def trial(self, settings: Settings) -> Trial:
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


def _work(knobs: Sequence[Knob]) -> tuple[int, int]:
    """The measurements that knobs take, and their length in windows, if every second one has a value to compare."""
    values = sum(len(knob.values) for knob in knobs)
    compared = 2 * PAIRS * (len(knobs) // 2 + 2)
    return values + compared, values + 2 * compared


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
