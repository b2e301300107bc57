# Yours: written once, never touched by `make update`.
"""How the model file of step trees is made: trained in a second, written as a checkpoint of Treelite."""

from pathlib import Path

import numpy as np
import treelite.sklearn

from models.penguins import classifier


def build(path: Path) -> None:
    """Write the trees: input__0 FP32[batch, 6] -> output__0 FP32[batch, 3], probabilities."""
    with np.errstate(invalid="ignore"):  # a missing sex is listed with the categories
        model = treelite.sklearn.import_model(classifier())
    model.serialize(path)
