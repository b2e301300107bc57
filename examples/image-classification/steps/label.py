# Yours: written once, never touched by `make update`.
"""Step label: the classifier's logits -> the most probable label and its probability.

Tested without a server by tests/test_label.py.
"""

import numpy as np
from numpy.typing import NDArray

from step_types import LabelOutputs
from steps.labels import LABELS
from triton_step import Context


class Step:
    """LOGITS FP32[batch, n] -> LABEL STRING[batch, 1], SCORE FP32[batch, 1].

    LABEL is that of the greatest logit, SCORE its softmax probability, 1/n to 1.
    The n labels are in steps/labels.py.
    Raises nothing: every row of logits has an answer.
    """

    def __init__(self, context: Context) -> None:
        """Called once, when the model loads. `context` has the step's parameters, directory, device
        and a logger; this step needs none of them."""

    def __call__(self, LOGITS: NDArray[np.float32]) -> LabelOutputs:
        best = LOGITS.argmax(axis=1, keepdims=True)
        return {"LABEL": LABELS[best], "SCORE": softmax(LOGITS).max(axis=1, keepdims=True)}


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """FP32[batch, n] -> FP32[batch, n], each row adding up to 1."""
    # exp() would overflow on a large logit: here the largest is 0
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float32] = powers / powers.sum(axis=1, keepdims=True)
    return probabilities
