# Yours: written once, never touched by `make update`.
"""Step join: the probabilities of two models -> a diagnosis, and whether both agree.

Tested without a server by tests/test_steps.py.
"""

import numpy as np
from numpy.typing import NDArray

from step_types import JoinOutputs
from triton_step import Context

LABELS = np.array([b"malignant", b"benign"], dtype=np.object_)


class Step:
    """LINEAR FP32[batch, 2], FOREST FP32[batch, 2] -> DIAGNOSIS, PROBABILITY, AGREED, each [batch, 1].

    DIAGNOSIS STRING is the label with the greatest mean of both models' probabilities, PROBABILITY
    FP32 that mean, AGREED BOOL whether it is the most probable label of each model.
    Raises nothing: every pair of rows has an answer.
    """

    def __init__(self, context: Context) -> None:
        """Called once, when the model loads. `context` has the step's parameters, directory, device
        and a logger; this step needs none of them."""

    def __call__(self, LINEAR: NDArray[np.float32], FOREST: NDArray[np.float32]) -> JoinOutputs:
        mean = (LINEAR + FOREST) / 2
        best = mean.argmax(axis=1, keepdims=True)
        agreed = LINEAR.argmax(axis=1, keepdims=True) == FOREST.argmax(axis=1, keepdims=True)
        return {
            "DIAGNOSIS": LABELS[best],
            "PROBABILITY": mean.max(axis=1, keepdims=True),
            "AGREED": agreed,
        }
