# Yours: written once, never touched by `make update`.
"""Compares what is served with the trained classifier, on the samples and at several sizes.

reference(inputs) of models/classify.py is compared with the model file that it makes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.digits import classifier
from steps.label import Step as Label
from steps.preprocess import Step as Preprocess
from triton_ensemble.testing.reference import *  # noqa: F403
from triton_step import Context


def pipeline(inputs: dict[str, NDArray[Any]]) -> Any:
    """Return the outputs that the ensemble must have for a sample: by scikit-learn, without a model file."""
    pixels = Preprocess(Context())(inputs["IMAGE"])["PIXELS"]
    logits = classifier().predict_proba(pixels)
    return Label(Context())(logits.astype(np.float32))
