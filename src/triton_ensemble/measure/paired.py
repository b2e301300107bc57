"""Two servers measured in pairs: the ratio of a figure, and how far noise can move it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import comb

COVERAGE = 0.99
FEWEST = 8  # pairs; the lowest and the highest of fewer cover the median less often than COVERAGE


@dataclass(frozen=True)
class Comparison:
    """The medians of a figure on both sides, and of the ratio of pairs, which is in the interval by `coverage`."""

    figure: str
    base: float
    now: float
    ratio: float
    low: float
    high: float
    coverage: float

    @property
    def is_worse(self) -> bool:
        """Whether the whole interval is on the worse side: below 1 for a rate, above 1 for a time."""
        return self.high < 1 if self.figure.endswith("/s") else self.low > 1

    def __str__(self) -> str:
        values = f"{self.figure:<12} {self.base:10.2f} {self.now:10.2f} {self.ratio:7.3f}"
        verdict = "  worse" * self.is_worse
        return f"{values}  {self.low:.3f} to {self.high:.3f} ({self.coverage:.0%}){verdict}"


def compare(figure: str, base: Sequence[float], now: Sequence[float]) -> Comparison:
    """Compare the figures of pairs, at least FEWEST, by order statistics of their ratios, as the sign test does."""
    ratios = sorted(new / old for old, new in zip(base, now, strict=True))
    rank, coverage = find_rank(len(ratios))
    old, new, ratio = map(statistics.median, (base, now, ratios))
    return Comparison(figure, old, new, ratio, ratios[rank - 1], ratios[-rank], coverage)


def find_rank(pairs: int) -> tuple[int, float]:
    """Return the rank, from both ends, of the narrowest interval that covers the median by COVERAGE, and its coverage."""
    tails = accumulate(comb(pairs, below) / 2**pairs for below in range(pairs))
    covered = [(rank, 1 - 2 * tail) for rank, tail in enumerate(tails, 1)]
    return max(each for each in covered if each[1] >= COVERAGE)
