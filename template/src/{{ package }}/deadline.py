# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The time that a call has, and the pauses before it is tried again."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator

from .errors import DeadlineExceeded, InvalidInput

LONGEST_S = 86400.0  # sockets know no infinity
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0


class Deadline:
    """The end of a call that begins now and has `seconds`."""

    def __init__(self, seconds: float) -> None:
        if math.isnan(seconds):
            raise InvalidInput("timeout is no number; give seconds")
        self._seconds = seconds
        self._end = time.monotonic() + min(seconds, LONGEST_S)

    def left(self) -> float:
        """Seconds until it; DeadlineExceeded if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.exceeded()
        return left

    def exceeded(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"no answer in {self._seconds:g} s")

    def pauses(self, retries: int) -> Iterator[float]:
        """Seconds before each retry that starts before the end.

        Random ones, up to twice as long each time, so that clients which a server has turned away
        together do not come back together.
        """
        for attempt in range(retries):
            pause = random.uniform(0, min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt))
            if time.monotonic() + pause >= self._end:
                return
            yield pause
