# Yours: written once, never touched by `make update`.
"""Step query: the query of each text, also where the request has none."""

import numpy as np
from numpy.typing import NDArray

from step_types import QueryOutputs
from triton_step import Context


class Step:
    """TEXT STRING[batch, 1], QUERY STRING[batch, 1] or None -> QUERIES STRING[batch, 1].

    An ensemble runs all of its steps for each request. So a request without QUERY gets the shortest
    query for each text, "", and its SCORE is meaningless.
    """

    def __init__(self, context: Context) -> None: ...

    def __call__(
        self, TEXT: NDArray[np.object_], QUERY: NDArray[np.object_] | None
    ) -> QueryOutputs:
        return {"QUERIES": np.full_like(TEXT, b"") if QUERY is None else QUERY}
