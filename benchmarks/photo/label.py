"""LOGITS FP32[batch, 10] -> LABEL STRING[batch, 1], SCORE FP32[batch, 1]."""

import numpy as np
from numpy.typing import NDArray

from step_types import LabelOutputs  # type: ignore[import-not-found, unused-ignore]
from triton_step import Context

LABELS = np.array([b"%d" % i for i in range(10)], np.object_)


class Step:
    def __init__(self, context: Context) -> None: ...

    def __call__(self, LOGITS: NDArray[np.float32]) -> LabelOutputs:
        powers = np.exp(LOGITS - LOGITS.max(axis=1, keepdims=True))
        scores = powers / powers.sum(axis=1, keepdims=True)
        best = LOGITS.argmax(axis=1, keepdims=True)
        return {"LABEL": LABELS[best], "SCORE": scores.max(axis=1, keepdims=True)}
