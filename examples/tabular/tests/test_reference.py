# Yours: written once, never touched by `make update`.
"""Compares what is served with scikit-learn's own answer: on the samples, and on every penguin of the table."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.penguins import classifier, split
from steps.decide import SPECIES
from steps.features import COLUMNS
from steps.features import Step as Features
from triton_ensemble.testing.reference import *  # noqa: F403
from triton_step import Context

LIMIT = 1e-6
TOLERANCES = {"PROBABILITY": {"rtol": 0, "atol": LIMIT}}


def pipeline(inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the outputs that the ensemble must have for a request: scikit-learn's, without a model file."""
    features = Features(Context())(inputs["PENGUIN"])["FEATURES"]
    probabilities = classifier().predict_proba(features)
    return {
        "SPECIES": SPECIES[classifier().predict(features)][:, None],
        "PROBABILITY": probabilities.max(axis=1, keepdims=True).astype(np.float32),
    }


def test_every_penguin_is_answered_as_by_scikit_learn(client: Any) -> None:
    """Each as it is, and without one of its values."""
    rows = [row for part in split() for row in part.rows]
    rows += [row | {COLUMNS[i % len(COLUMNS)]: None} for i, row in enumerate(rows)]
    table = np.array([json.dumps(row).encode() for row in rows], np.object_)[:, None]
    starts = range(0, len(table), client.max_batch_size)
    answers = [client.infer({"PENGUIN": table[i : i + client.max_batch_size]}) for i in starts]
    for name, wanted in pipeline({"PENGUIN": table}).items():
        answer = np.concatenate([each[name] for each in answers])
        if name in TOLERANCES:
            np.testing.assert_allclose(answer, wanted, rtol=0, atol=LIMIT)
        else:
            np.testing.assert_array_equal(answer, wanted)
