"""The concurrency that settings are measured at, and the shortest measurement there."""

from __future__ import annotations

import time
from collections.abc import Callable

from triton_ensemble.measure.figures import Level
from triton_ensemble.measure.saturation import measure_saturation, saturation_point
from triton_ensemble.measure.trials import Objective, TooShortError

LATENCIES = 3  # a measurement takes as long as so many requests of a caller, one after the other
SHORTEST_S = 0.3


def window_s(level: Level) -> float:
    """Return the shortest measurement of a level that is more than chance."""
    return max(SHORTEST_S, LATENCIES * level.load.p50_us / 1e6)


class Probe:
    """Measures levels, each for as long as its latency asks for.

    Raises TooShortError if a measurement would end after `deadline`.
    """

    def __init__(
        self, measure: Callable[[int, float], Level], deadline: float, seconds: float
    ) -> None:
        self._measure, self._deadline, self._seconds = measure, deadline, seconds

    def __call__(self, concurrency: int) -> Level:
        if time.monotonic() + self._seconds > self._deadline:
            raise TooShortError
        level = self._measure(concurrency, self._seconds)
        self._seconds = max(self._seconds, window_s(level))
        if level.load.throughput or level.load.failed:
            return level
        self._seconds *= 2
        return self(concurrency)


def level_to_tune(probe: Probe, objective: Objective, concurrency: int | None) -> Level:
    """Return the level of `concurrency` callers, or by default of as many as the objective asks for.

    With a limit of the p99, these are the most callers within it, and otherwise the fewest that reach the highest
    throughput. Raise RuntimeError if requests fail there.
    """
    levels = (
        [probe(concurrency)] if concurrency else list(measure_saturation(probe, objective.is_met))
    )
    within = [level for level in levels if objective.is_met(level.load)] or levels[:1]
    chosen = within[-1] if objective.p99_us else saturation_point(within)
    for error, count in chosen.load.errors.items():
        raise RuntimeError(f"{count} requests failed: {error}; see `make bench`")
    return chosen
