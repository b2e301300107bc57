# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The positions of requests in a sequence, and the requests of a call whose rows are one."""

import random
from typing import Any

from ..tensors import MAX_BATCH_SIZE, SEQUENTIAL
from .batches import Arrays, Inputs, arrays, part
from .errors import InvalidInput


def position(sequence: int, start: bool, end: bool) -> dict[str, Any]:
    """Return a position as tritonclient expects it; without a `sequence` the request is its own sequence."""
    if not (sequence or SEQUENTIAL):
        return {}
    return {
        "sequence_id": sequence or random.randrange(1, 2**63),
        "sequence_start": start or not sequence,
        "sequence_end": end or not sequence,
    }


def request_arrays(inputs: Inputs) -> Arrays:
    """Return the inputs of one request; raise InvalidInput for several rows in a pipeline with sequences."""
    given = arrays(inputs)
    if len(split_sequence(given)) > 1:
        raise InvalidInput("a request of a sequence has one row; send one for each row")
    return given


def split_sequence(given: Arrays) -> list[tuple[Arrays, bool, bool]]:
    """Return the requests of a call whose rows are one sequence, each with whether it starts and ends it.

    A call to a pipeline without sequences is one request.
    """
    count = len(next(iter(given.values()), ())) if MAX_BATCH_SIZE and SEQUENTIAL else 0
    rows = range(max(count, 1))
    return [(part(given, rows[i : i + 1]) if count else given, i == 0, i == rows[-1]) for i in rows]
