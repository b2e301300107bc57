# Yours: written once, never touched by `make update`.
"""Measurements of 569 cell samples of the breast, and the two classifiers that are trained on them.

The data is part of the scikit-learn package, so nothing is downloaded:
https://archive.ics.uci.edu/dataset/17/breast+cancer+wisconsin+diagnostic
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer  # type: ignore[import-untyped]
from sklearn.ensemble import RandomForestClassifier  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]


class Samples(NamedTuple):
    """Features FP32[n, 30], in the order of steps/featurize.py, and n labels: 0 is malignant."""

    features: NDArray[np.float32]
    labels: NDArray[np.int64]


@cache
def split() -> tuple[Samples, Samples]:
    """The samples to train on and, a third of all, the held-out ones; always the same."""
    features, labels = load_breast_cancer(return_X_y=True)
    train, held_out, train_labels, held_out_labels = train_test_split(
        features.astype(np.float32), labels, test_size=190, random_state=0, stratify=labels
    )
    return Samples(train, train_labels), Samples(held_out, held_out_labels)


@cache
def linear() -> Any:
    """The trained logistic regression, which scales the features first."""
    train, _ = split()
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(*train)


@cache
def forest() -> Any:
    """The trained forest of 100 decision trees."""
    train, _ = split()
    return RandomForestClassifier(random_state=0).fit(*train)
