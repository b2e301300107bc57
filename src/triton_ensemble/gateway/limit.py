"""How many places there are while requests are refused: fewer, where those let in take longer than they did before."""

from __future__ import annotations

import time
from collections.abc import Callable

WINDOW_S = 0.5
LEAST = 1 / 8  # of the places that an operator has given
HEADROOM = 1.1  # a pipeline whose times only vary keeps its places
CHANGE = (0.5, 1.2)  # of the places, at most, from one window to the next
SUSTAINED = 3  # windows after which refusals are no hiccup
AGAIN_S = 120.0  # until all are tried: who asks again at once may be why some are refused
LIKE = 0.9  # of the most at once: their times count as well
SMOOTHED = 0.1  # what a window has of the mean
FADES = 0.99  # by window of fewer: models may become slower


class Limit:
    """The places of a worker, from what requests took where none was refused, and take where some are.

    A gateway that refuses takes cores that its Triton may need; then as many requests at once take longer each, and fewer
    do not. What they took is remembered for the most of them that were there at once, and is taken to be in
    proportion where that was not all: a batch of 32 may take longer than one of 4, and is not to be cut for that.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.places = most
        self._most, self._clock = most, clock
        self._exact = float(most)
        self._calm_s = self._calm_peak = 0.0
        self._overloaded = 0  # windows one after the other
        self._again = clock() + AGAIN_S
        self._begin()

    def _begin(self) -> None:
        self._end = self._clock() + WINDOW_S
        self._count, self._sum_s, self._peak, self._refused = 0, 0.0, 0, 0

    @property
    def is_all(self) -> bool:
        """Whether none of the places is kept back."""
        return self.places == self._most

    def refused(self) -> None:
        """Note that no place was left for a request."""
        self._refused += 1

    def took(self, seconds: float, at_once: int) -> None:
        """Note how long a request had a place, with so many others and itself; `places` may change."""
        self._count += 1
        self._sum_s += seconds
        self._peak = max(self._peak, at_once)
        if self._clock() < self._end:
            return
        mean_s = self._sum_s / self._count
        change = CHANGE[1]
        self._overloaded = self._overloaded + 1 if self._refused > self._count else 0
        if not self._refused:
            self._remember(mean_s)
        elif self._overloaded > SUSTAINED and self._calm_peak:
            wanted_s = HEADROOM * self._calm_s * self._most / self._calm_peak
            change = min(max(wanted_s / mean_s, CHANGE[0]), change)
        if self._clock() > self._again:
            change, self._again = self._most, self._clock() + AGAIN_S
        self._exact = min(max(self._exact * change, self._most * LEAST, 1), self._most)
        self.places = round(self._exact)
        self._begin()

    def _remember(self, mean_s: float) -> None:
        if self._peak > self._calm_peak:
            self._calm_s, self._calm_peak = mean_s, self._peak
        elif self._peak >= LIKE * self._calm_peak:
            self._calm_s += SMOOTHED * (mean_s - self._calm_s)
        else:
            self._calm_peak *= FADES
