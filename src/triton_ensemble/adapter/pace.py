"""Whether requests share a call of the step, and how long a call waits for more of them: measured, as no step tells."""

from __future__ import annotations

# Below, it does not pay: to answer before the pause, each request needs a message of its own.
PAUSE_FROM_SECONDS = 0.0015
PAUSE_SHARE = 0.05
PAUSE_SECONDS = 0.001  # in which a client asks again


class Pace:
    """Whether one call for several requests is faster than a call for each: for some work it is not.

    A time is the least of the recent ones, because noise only adds. The slower way is tried again
    after 4, 16, 64 and then each 100 times as long as it takes: once warm, 1 % of the time goes there.
    """

    def __init__(self) -> None:
        self._seconds = [0.0, 0.0]  # a request takes alone, together; 0 until known
        self._until_trial = 0.0
        self._patience = 4.0

    def together(self) -> bool:
        faster = self._seconds[True] <= self._seconds[False]
        return faster if self._until_trial > 0 else not faster

    def learn(self, together: bool, seconds: float) -> None:
        """Note the seconds that a request took."""
        known = self._seconds[together]
        self._seconds[together] = min(seconds, 1.1 * known) if known else seconds
        if self._until_trial > 0:
            self._until_trial -= seconds
        else:
            self._until_trial = self._patience * seconds
            self._patience = min(4 * self._patience, 100.0)

    def pause(self, seconds: float) -> float:
        """Return how long to stay busy after a shared call that took so many seconds.

        At the end of a call Triton passes on the waiting requests. Clients that were just answered ask again a moment
        later, and so one call becomes two. If sharing a call pays, it also pays to wait for that moment.
        """
        alone, together = self._seconds
        pays = seconds > PAUSE_FROM_SECONDS and alone > 3 * together
        return min(PAUSE_SHARE * seconds, PAUSE_SECONDS) if pays else 0.0
