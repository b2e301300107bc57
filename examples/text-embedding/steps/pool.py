# Yours: written once, never touched by `make update`.
"""Step pool: the vectors of a text's tokens -> their mean, of length 1.

Tested without a server by tests/test_steps.py.
"""

import numpy as np
from numpy.typing import NDArray

from step_types import PoolOutputs
from triton_step import Context


class Step:
    """HIDDEN FP32[batch, length, 384], MASK INT64[batch, length] -> EMBEDDING FP32[batch, 384].

    Padding, where MASK is 0, does not count. The dot product of two embeddings is the cosine of
    their angle: near 1 for texts that mean the same.
    """

    def __init__(self, context: Context) -> None:
        """Called once, when the model loads. `context` has the step's parameters, directory, device
        and a logger; this step needs none of them."""

    def __call__(self, HIDDEN: NDArray[np.float32], MASK: NDArray[np.int64]) -> PoolOutputs:
        total = np.einsum("blw,bl->bw", HIDDEN, MASK.astype(np.float32))
        # The mean has the direction of the sum, and of its length nothing is left.
        return {
            "EMBEDDING": total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
        }
