# Yours: written once, never touched by `make update`.
"""Compares what is served with the trained classifier, on the samples and at several sizes.

reference(inputs) of models/classify.py is compared with the model file that it makes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.docstrings import MODULES, classifier, occurrences
from triton_ensemble.testing.reference import *  # noqa: F403


def pipeline(inputs: dict[str, NDArray[Any]]) -> Any:
    """Return the outputs that the ensemble must have for a sample: by scikit-learn alone."""
    probabilities = classifier().predict_proba(
        occurrences([text.decode() for text in inputs["TEXT"][:, 0]])
    )
    labels = np.array([name.encode() for name in MODULES], dtype=np.object_)
    best = probabilities.argmax(axis=1, keepdims=True)
    return {"LABEL": labels[best], "SCORE": probabilities.max(axis=1, keepdims=True)}
