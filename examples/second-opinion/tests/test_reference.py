# Yours: written once, never touched by `make update`.
"""Compares what is served with the trained classifiers, on the samples and at several sizes.

reference(inputs) of models/linear.py and models/forest.py is compared with the files that they make.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.samples import forest, linear
from steps.featurize import Step as Featurize
from steps.join import Step as Join
from triton_ensemble.testing.reference import *  # noqa: F403
from triton_step import Context


def pipeline(inputs: dict[str, NDArray[Any]]) -> Any:
    """Return the outputs that the ensemble must have for a sample: by scikit-learn, without a model file."""
    features = Featurize(Context())(inputs["MEASUREMENTS"])["FEATURES"]
    both = [model.predict_proba(features).astype(np.float32) for model in (linear(), forest())]
    return Join(Context())(*both)
