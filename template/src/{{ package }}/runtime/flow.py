# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The time of a call and its retries, and the rows that an error names."""

import math
import random
import re
import time
from collections.abc import Iterator

from .errors import DeadlineExceeded, InferenceError, InvalidInput

LONGEST_S = 86400.0  # sockets do not accept infinity
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0


class Deadline:
    """The end of a call that begins now and has `seconds`; raises InvalidInput for NaN."""

    def __init__(self, seconds: float) -> None:
        if math.isnan(seconds):
            raise InvalidInput("timeout is not a number; give seconds")
        self._seconds = seconds
        self._end = time.monotonic() + min(seconds, LONGEST_S)

    def left(self) -> float:
        """Return the seconds that are left; raise DeadlineExceeded if none are."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.make_timeout()
        return left

    def left_us(self) -> int:
        """Return the same for Triton, in microseconds: it does not tell an ensemble's steps that the client has left."""
        return round(self.left() * 1e6)

    def make_timeout(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"no answer in {self._seconds:g} s")

    def pauses(self, retries: int) -> Iterator[float]:
        """Yield the seconds before each retry, while there is time for one.

        They are random, and their limit doubles each time, so that clients that a server refused
        together do not come back together.
        """
        for attempt in range(retries):
            pause = random.uniform(0, min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt))
            if time.monotonic() + pause >= self._end:
                return
            yield pause


def shift_rows(error: InferenceError, rows: range) -> InferenceError:
    """Return the same error for the `rows` of the call; "row 0" of a request of one row becomes the call's row."""
    text = str(error)
    if len(rows) == 1 and rows.start:
        text, named = re.subn(r"\brow 0\b", f"row {rows.start}", text)
        text = text if named else f"row {rows.start}: {text}"
    return type(error)(text, rows)
