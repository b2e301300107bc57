# Yours: written once, never touched by `make update`.
"""The served ensemble on texts that the model was not trained on."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.docstrings import MODULES, classifier, occurrences, split


class Client(Protocol):
    max_batch_size: int

    def infer(self, inputs: dict[str, NDArray[np.object_]]) -> dict[str, NDArray[np.object_]]: ...


def test_the_ensemble_is_as_accurate_as_the_model_it_serves(client: Client) -> None:
    _, held_out = split()
    texts = np.array([[text.encode()] for text in held_out.texts], dtype=np.object_)
    starts = range(0, len(texts), client.max_batch_size)
    batches = [texts[start : start + client.max_batch_size] for start in starts]
    labels = np.concatenate([client.infer({"TEXT": batch})["LABEL"] for batch in batches])
    right = np.array([name.encode() for name in MODULES])[held_out.labels]
    served = np.mean(labels[:, 0] == right)
    assert served > 0.8
    model = classifier().score(occurrences(held_out.texts), held_out.labels)
    assert abs(served - model) <= 0.01
