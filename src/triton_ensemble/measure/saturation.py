"""Load levels up to saturation: the load at which more callers bring no more throughput."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from triton_ensemble.measure.figures import Level, Load, best

GAIN = 1.05  # a throughput is higher by this factor at least, or it counts as the same
PATIENCE = 3  # levels; throughput often stays for one or two before batches fill
MAX_CONCURRENCY = 1024


def measure_saturation(
    measure: Callable[[int], Level], counts: Callable[[Load], bool] = lambda _: True
) -> Iterator[Level]:
    """Measure 1, 2, 4 ... callers, until PATIENCE levels in a row bring no higher throughput that `counts`."""
    highest, without_gain, concurrency = 0.0, 0, 1
    while without_gain < PATIENCE and concurrency <= MAX_CONCURRENCY:
        level = measure(concurrency)
        yield level
        if counts(level.load) and level.load.throughput > highest * GAIN:
            highest, without_gain = level.load.throughput, 0
        else:
            without_gain += 1
        concurrency *= 2


def saturation_point(levels: Sequence[Level]) -> Level:
    """Return the first level whose throughput is as good as the highest."""
    enough = best(levels).load.throughput / GAIN
    return next(level for level in levels if level.load.throughput >= enough)
