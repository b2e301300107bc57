# Managed by triton-ensemble-template: edits are merged by `make update`.
"""What one request comes to, with retries and the search for a bad row, whatever sends it.

A generator yields what is to be done, rows to send or seconds to wait, and is sent the answer to
the rows, or their error: a synchronous client and an asynchronous one run the same.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from .batches import Arrays
from .deadline import Deadline
from .errors import InferenceError, InvalidInput, Unavailable, of_rows

Answer: TypeAlias = Arrays | InferenceError | None
Flow: TypeAlias = Generator[range | float, Answer, Arrays]
Tried: TypeAlias = Generator[range | float, Answer, Answer]


def flow(rows: range, deadline: Deadline, retries: int) -> Flow:
    """The answer to the request of some rows of a call; raises its InferenceError."""
    answer = yield from _tried(rows, deadline, retries)
    if isinstance(answer, InvalidInput) and len(rows) > 1:
        rows, answer = yield from _searched(rows, answer)
    if isinstance(answer, InferenceError):
        raise of_rows(answer, rows)
    assert answer is not None
    return answer


def _tried(rows: range, deadline: Deadline, retries: int) -> Tried:
    """Sends again only what the server was not there for, or was too busy for."""
    answer = yield rows
    for pause in deadline.pauses(retries):
        if not isinstance(answer, Unavailable):
            break
        yield pause
        answer = yield rows
    return answer


def _searched(
    rows: range, error: InvalidInput
) -> Generator[range | float, Answer, tuple[range, InferenceError]]:
    """The first row that is refused, with its own error, by halving; Triton refuses all of them."""
    suspects = rows
    while len(suspects) > 1:
        half = suspects[: len(suspects) // 2]
        answer = yield half
        if isinstance(answer, InferenceError) and not isinstance(answer, InvalidInput):
            return rows, error
        suspects = half if isinstance(answer, InvalidInput) else suspects[len(half) :]
    answer = yield suspects
    return (suspects, answer) if isinstance(answer, InvalidInput) else (rows, error)
