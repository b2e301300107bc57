"""Levels of load that grow, and the one of them where more callers bring no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from triton_ensemble.bench.figures import Level, Load, best

GROWTH = 1.05  # below it, throughput has not grown
IDLE = 3  # levels; throughput often rests for one or two before batches grow
MOST = 1024


def growing(
    measure: Callable[[int], Level], counts: Callable[[Load], bool] = lambda _: True
) -> Iterator[Level]:
    """Levels of 1, 2, 4 ... callers, until IDLE in a row have brought no more throughput that `counts`."""
    most, idle, concurrency = 0.0, 0, 1
    while idle < IDLE and concurrency <= MOST:
        level = measure(concurrency)
        yield level
        if counts(level.load) and level.load.throughput > most * GROWTH:
            most, idle = level.load.throughput, 0
        else:
            idle += 1
        concurrency *= 2


def fewest(levels: Sequence[Level]) -> Level:
    """The first whose throughput is the highest, but for what is no growth."""
    enough = best(levels).load.throughput / GROWTH
    return next(level for level in levels if level.load.throughput >= enough)
