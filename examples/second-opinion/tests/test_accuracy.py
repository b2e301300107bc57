# Yours: written once, never touched by `make update`.
"""The served ensemble on samples that the models were not trained on."""

import json
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from models.samples import forest, linear, split
from steps.featurize import NAMES
from steps.join import LABELS


class Client(Protocol):
    max_batch_size: int

    def infer(self, inputs: dict[str, NDArray[np.object_]]) -> dict[str, NDArray[Any]]: ...


def test_the_ensemble_is_as_accurate_as_the_models_it_serves(client: Client) -> None:
    _, held_out = split()
    texts = [json.dumps(dict(zip(NAMES, row.tolist(), strict=True))) for row in held_out.features]
    rows = np.array([text.encode() for text in texts], dtype=np.object_).reshape(-1, 1)
    starts = range(0, len(rows), client.max_batch_size)
    answers = [client.infer({"MEASUREMENTS": rows[i : i + client.max_batch_size]}) for i in starts]
    diagnoses, agreed = (
        np.concatenate([answer[name] for answer in answers])[:, 0]
        for name in ("DIAGNOSIS", "AGREED")
    )
    right = diagnoses == LABELS[held_out.labels]
    both = (
        linear().predict_proba(held_out.features) + forest().predict_proba(held_out.features)
    ) / 2
    assert right.mean() > 0.93
    assert abs(right.mean() - np.mean(both.argmax(axis=1) == held_out.labels)) <= 0.01
    assert right[agreed].mean() > right[~agreed].mean() + 0.1  # what the second opinion is for
