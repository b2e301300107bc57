# Yours: written once, never touched by `make update`.
"""Step compare: the vectors of the tokens of a text and of a query -> how well the text answers the query.

Tested without a server by tests/test_steps.py.
"""

import numpy as np
from numpy.typing import NDArray

from step_types import CompareOutputs
from triton_step import Context


class Step:
    """HIDDEN FP32[batch, length, 384], QUERY_HIDDEN FP32[batch, words, 384], masks -> SCORE FP32[batch, 1].

    Each token of the query takes the token of the text that is nearest to it, by the cosine of their
    angle. SCORE is the mean of these cosines. Padding, where a mask is 0, does not count. This is the
    MaxSim of ColBERT (Khattab and Zaharia, 2020), divided by the number of the query's tokens.
    """

    def __init__(self, context: Context) -> None: ...

    def __call__(
        self,
        HIDDEN: NDArray[np.float32],
        MASK: NDArray[np.int64],
        QUERY_HIDDEN: NDArray[np.float32],
        QUERY_MASK: NDArray[np.int64],
    ) -> CompareOutputs:
        cosines = scale(QUERY_HIDDEN) @ scale(HIDDEN).transpose(0, 2, 1)
        nearest = np.where(MASK[:, np.newaxis] == 1, cosines, -1).max(axis=2)
        total = (nearest * QUERY_MASK).sum(axis=1, keepdims=True)
        mean = total / np.maximum(QUERY_MASK.sum(axis=1, keepdims=True), 1)
        return {"SCORE": mean.astype(np.float32)}


def scale(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vectors with length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
