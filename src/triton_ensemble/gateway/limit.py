"""How many places there are while most requests are refused: fewer, where fewer answer nearly as many."""

from __future__ import annotations

SUSTAINED = 4  # windows of refusals, after which they are no hiccup
SETTLED = 3  # windows after a change: the first has requests of before
SAMPLES = 50  # requests that a window has at the least, so that rates compare
LEAST = 8  # places are at least one of so many
KEPT = 0.65  # of the rate that all places have
AGAIN_S = 300.0  # until all places are tried again
RETRY = 30  # times as long as it took to see that fewer cost too much, until they are tried again: rates vary


class Limit:
    """The places of a worker: halved, while that costs less than a third of the answers a second, until refusals end.

    A request that is let in then waits half as long. If a pipeline's rate falls with its places, it has them back after two
    seconds. Such a pipeline waits for something else, or computes larger batches in little more time.
    """

    def __init__(self, most: int) -> None:
        self._most, self._half = most, max(most // 2, 1)
        self._forget()

    def _forget(self) -> None:
        self._fewer = self._half  # that are tried first
        self._held_s = 0.0
        self._count = self._refused = 0
        self._seconds = 0.0
        self._set(self._most)

    def _set(self, places: int) -> None:
        self.places, self._windows = places, 0
        self._sum, self._sum_s = 0, 0.0

    def window(self, answered: int, refused: int, seconds: float) -> None:
        """Note how many requests have had a place, and how many none, in the seconds since the last call."""
        if not refused:
            self._forget()
            return
        self._count += answered
        self._refused += refused
        self._seconds += seconds
        if self._count < SAMPLES:
            return
        count, refused, seconds = self._count, self._refused, self._seconds
        self._count, self._refused, self._seconds = 0, 0, 0.0
        held_s = self._held_s - seconds
        if refused <= count:
            self._forget()
        elif held_s > 0:
            self._held_s = held_s
        elif self._held_s:
            self._held_s = 0.0
            self._fewer = self.places if self.places < self._most else self._half
            self._set(self._most)
        else:
            self._try(count, seconds)

    def _try(self, count: int, seconds: float) -> None:
        is_all, least = self.places == self._most, max(self._most // LEAST, 1)
        self._windows += 1
        if self._windows > 1:
            self._sum, self._sum_s = self._sum + count, self._sum_s + seconds
        if self._windows < (SUSTAINED if is_all else SETTLED):
            return
        rate = self._sum / self._sum_s
        if is_all:
            self._rate_of_all, self._before = rate, self._most
            self._set(self._fewer)
        elif rate < KEPT * self._rate_of_all:
            self._hold(self._before, RETRY * self._sum_s)
        elif self.places > least:
            self._before = self.places
            self._set(max(self.places // 2, least))
        else:
            self._hold(self.places, AGAIN_S)

    def _hold(self, places: int, seconds: float) -> None:
        self._held_s = seconds
        self._set(places)
