# Yours: written once, never touched by `make update`.
"""Compares what is served with the trained network, on the samples and at several sizes.

reference(inputs) of models/classify.py is compared with the model file that it makes.
"""

from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from models.classify import classifier, tensor
from models.photographs import SUBJECTS
from triton_ensemble.testing.reference import *  # noqa: F403

TOLERANCES = {"SCORE": {"atol": 0.02}}  # large photographs are not decoded pixel by pixel


def pipeline(inputs: dict[str, NDArray[Any]]) -> Any:
    """Return the outputs that the ensemble must have for a sample: by Pillow and PyTorch alone."""
    images = [Image.open(BytesIO(data)) for data in inputs["IMAGE"][:, 0]]
    upright = [ImageOps.exif_transpose(image).convert("RGB") for image in images]
    probabilities = classifier()(tensor(upright)).softmax(1).numpy()
    labels = np.array([subject.name.encode() for subject in SUBJECTS], dtype=np.object_)
    best = probabilities.argmax(axis=1, keepdims=True)
    return {"LABEL": labels[best], "SCORE": probabilities.max(axis=1, keepdims=True)}
