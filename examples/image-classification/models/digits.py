# Yours: written once, never touched by `make update`.
"""scikit-learn's 1,797 handwritten digits, and the classifier that is trained on them.

The data is part of the scikit-learn package, so nothing is downloaded:
https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits
"""

from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]
from sklearn.neural_network import MLPClassifier  # type: ignore[import-untyped]
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]


class Digits(NamedTuple):
    """Pixels FP32[n, 64], 0 (paper) to 1 (ink), and the n digits that they show."""

    pixels: NDArray[np.float32]
    digits: NDArray[np.int64]


@cache
def split() -> tuple[Digits, Digits]:
    """The digits to train on and, a quarter of all, the held-out ones; always the same."""
    pixels, digits = load_digits(return_X_y=True)
    pixels = (pixels / 16).astype(np.float32)
    train, held_out, train_digits, held_out_digits = train_test_split(
        pixels, digits, test_size=450, random_state=0, stratify=digits
    )
    return Digits(train, train_digits), Digits(held_out, held_out_digits)


@cache
def classifier() -> Any:
    """The trained MLPClassifier; its `predict_proba` returns logits, FP32[n, 10]."""
    train, _ = split()
    model = MLPClassifier(
        (128,), alpha=0.01, learning_rate_init=0.003, max_iter=500, random_state=0
    )
    with threadpool_limits(1):  # on matrices this small, threads wait for each other
        trained = model.fit(*train)
    trained.out_activation_ = "identity"  # the softmax is the work of steps/label.py
    return trained


def encode(pixels: NDArray[np.float32], format: str = "JPEG") -> bytes:
    """One digit, FP32[64], as a JPEG or PNG file of 128 x 128 pixels."""
    shades = np.rint(255 * (1 - pixels)).astype(np.uint8).reshape(8, 8)
    file = BytesIO()
    Image.fromarray(shades).resize((128, 128), Image.Resampling.NEAREST).save(file, format)
    return file.getvalue()
