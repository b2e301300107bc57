"""How many places there are while most requests are refused: fewer, where fewer answer nearly as many."""

from __future__ import annotations

SUSTAINED = 4  # windows of refusals, after which they are no hiccup
SETTLED = 2  # windows after a change: the first has requests of before
SAMPLES = 50  # requests that a window has at the least, so that rates compare
LEAST = 8  # places are at least one of so many
KEPT = 0.75  # of the rate that all places have
AGAIN_S = 300.0  # all places are tried again


class Limit:
    """The places of a worker: halved, while that costs less than a quarter of the answers a second, until refusals end.

    Who is let in then waits half as long. A pipeline whose rate falls with its places has them back after a second: one
    that waits for something else, or computes larger batches in little more time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._forget()

    def _forget(self) -> None:
        self._half = self._fewer = max(self._most // 2, 1)
        self._held_s = 0.0
        self._count = self._refused = 0
        self._seconds = 0.0
        self._set(self._most)

    def _set(self, places: int) -> None:
        self.places, self._windows = places, 0

    def window(self, answered: int, refused: int, seconds: float) -> None:
        """Note how many requests have had a place, and how many none, in the seconds since the last call."""
        self._count += answered
        self._refused += refused
        self._seconds += seconds
        if refused and self._count < SAMPLES:
            return
        rate, overloaded = self._count / self._seconds, self._refused > self._count
        held_s = self._held_s - self._seconds
        self._count, self._refused, self._seconds = 0, 0, 0.0
        if not overloaded:
            self._forget()
        elif held_s > 0:
            self._held_s = held_s
        elif self._held_s:
            self._held_s = 0.0
            self._fewer = self.places if self.places < self._most else self._half
            self._set(self._most)
        else:
            self._try(rate)

    def _try(self, rate: float) -> None:
        is_all, least = self.places == self._most, max(self._most // LEAST, 1)
        self._windows += 1
        if self._windows < (SUSTAINED if is_all else SETTLED):
            return
        if is_all:
            self._rate_of_all, self._before = rate, self._most
            self._set(self._fewer)
        elif rate < KEPT * self._rate_of_all:
            self._hold(self._before)
        elif self.places > least:
            self._before = self.places
            self._set(max(self.places // 2, least))
        else:
            self._hold(self.places)

    def _hold(self, places: int) -> None:
        self._held_s = AGAIN_S
        self._set(places)
