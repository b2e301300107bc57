# Yours: written once, never touched by `make update`.
"""Compares what is served with the trained models, on the samples and at several sizes.

reference(inputs) of models/classify.py and models/screen.py is compared with the files that they make.
"""

from typing import Any

from numpy.typing import NDArray

from models import classify, screen
from steps.preprocess import Step as Preprocess
from triton_ensemble.testing.reference import *  # noqa: F403
from triton_step import Context


def pipeline(inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the outputs that the ensemble must have for a sample: by scikit-learn, without a model file."""
    pixels = {"pixels": Preprocess(Context())(inputs["IMAGE"])["PIXELS"]}
    answers = classify.reference(pixels) | screen.reference(pixels)
    return {name.upper(): values for name, values in answers.items()}
