# Yours: written once, never touched by `make update`.
"""Step decide: the trees' probabilities -> the most probable species, and whether to look at the row.

Tested without a server by tests/test_steps.py.
"""

import numpy as np
from numpy.typing import NDArray

from step_types import DecideOutputs
from triton_step import Context

SPECIES = np.array([b"Adelie", b"Chinstrap", b"Gentoo"], np.object_)


class Step:
    """PROBABILITIES FP32[batch, 3] -> SPECIES STRING[batch, 1], PROBABILITY FP32[batch, 1], REVIEW BOOL[batch, 1].

    REVIEW is whether PROBABILITY is below the parameter `least`.
    """

    def __init__(self, context: Context) -> None:
        self.least = float(context.parameters["least"])

    def __call__(self, PROBABILITIES: NDArray[np.float32]) -> DecideOutputs:
        probability = PROBABILITIES.max(axis=1, keepdims=True)
        return {
            "SPECIES": SPECIES[PROBABILITIES.argmax(axis=1, keepdims=True)],
            "PROBABILITY": probability,
            "REVIEW": probability < self.least,
        }
