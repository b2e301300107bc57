# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The course of one request: its deadline, its retries, and the search for the row that is refused.

Nothing here sends anything. `flow` is a generator that yields what to do next, rows to send or
seconds to wait, and is sent the answer to the rows, or their error.
"""

import math
import random
import re
import time
from collections.abc import Generator, Iterator
from typing import TypeAlias

from .batches import Arrays
from .errors import DeadlineExceeded, InferenceError, InvalidInput, Unavailable

LONGEST_S = 86400.0  # sockets know no infinity
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0

Answer: TypeAlias = Arrays | InferenceError | None
Flow: TypeAlias = Generator[range | float, Answer, Arrays]


class Deadline:
    """The end of a call that begins now and has `seconds`; InvalidInput for NaN."""

    def __init__(self, seconds: float) -> None:
        if math.isnan(seconds):
            raise InvalidInput("timeout is no number; give seconds")
        self._seconds = seconds
        self._end = time.monotonic() + min(seconds, LONGEST_S)

    def left(self) -> float:
        """Seconds that are left; raises DeadlineExceeded if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.exceeded()
        return left

    def left_us(self) -> int:
        """The same for Triton, in microseconds: it tells no step of an ensemble that the client has left."""
        return round(self.left() * 1e6)

    def exceeded(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"no answer in {self._seconds:g} s")

    def pauses(self, retries: int) -> Iterator[float]:
        """Seconds before each retry that starts before the end.

        They are random, up to twice as long each time: clients that a server has turned away
        together do not come back together.
        """
        for attempt in range(retries):
            pause = random.uniform(0, min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt))
            if time.monotonic() + pause >= self._end:
                return
            yield pause


def flow(rows: range, deadline: Deadline, retries: int) -> Flow:
    """The answer to the request of some rows of a call; raises its InferenceError."""
    answer = yield rows
    for pause in deadline.pauses(retries):
        if not isinstance(answer, Unavailable):
            break
        yield pause
        answer = yield rows
    if isinstance(answer, InvalidInput) and len(rows) > 1:
        rows, answer = yield from _first_refused(rows, answer)
    if isinstance(answer, InferenceError):
        raise of_rows(answer, rows)
    assert answer is not None
    return answer


def _first_refused(
    rows: range, error: InvalidInput
) -> Generator[range | float, Answer, tuple[range, InferenceError]]:
    """The first row that is refused, with its own error, by halving: Triton refuses all rows together."""
    suspects = rows
    while len(suspects) > 1:
        half = suspects[: len(suspects) // 2]
        answer = yield half
        if isinstance(answer, InferenceError) and not isinstance(answer, InvalidInput):
            return rows, error
        suspects = half if isinstance(answer, InvalidInput) else suspects[len(half) :]
    answer = yield suspects
    return (suspects, answer) if isinstance(answer, InvalidInput) else (rows, error)


def of_rows(error: InferenceError, rows: range) -> InferenceError:
    """The same error for the `rows` of the call; "row 0" of a request of one row becomes the call's row."""
    text = str(error)
    if len(rows) == 1 and rows.start:
        text, named = re.subn(r"\brow 0\b", f"row {rows.start}", text)
        text = text if named else f"row {rows.start}: {text}"
    return type(error)(text, rows)
