# Yours: written once, never touched by `make update`.
"""The served ensemble on crops that the model was not trained on."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.classify import classifier, tensor
from models.photographs import SUBJECTS, encode, split


class Client(Protocol):
    max_batch_size: int

    def infer(self, inputs: dict[str, NDArray[np.object_]]) -> dict[str, NDArray[np.object_]]: ...


def labels(client: Client, images: NDArray[np.object_], rows: int) -> NDArray[np.object_]:
    """Return the label of each image, asked for in requests of some rows."""
    batches = [images[start : start + rows] for start in range(0, len(images), rows)]
    return np.concatenate([client.infer({"IMAGE": batch})["LABEL"] for batch in batches])[:, 0]


def test_the_ensemble_is_as_accurate_as_the_model_it_serves(client: Client) -> None:
    _, held_out = split()
    images = np.array([[encode(image)] for image in held_out.images], dtype=np.object_)
    right = np.array([subject.name.encode() for subject in SUBJECTS])[held_out.labels]
    served = np.mean(labels(client, images, client.max_batch_size) == right)
    assert served > 0.9
    predicted = classifier()(tensor(held_out.images)).argmax(1).numpy()
    assert abs(served - np.mean(predicted == held_out.labels)) <= 0.02


def test_the_size_of_a_request_changes_no_label(client: Client) -> None:
    _, held_out = split()
    images = np.array([[encode(image)] for image in held_out.images[::25]], dtype=np.object_)
    for rows in range(1, client.max_batch_size):
        np.testing.assert_array_equal(
            labels(client, images, rows), labels(client, images, client.max_batch_size)
        )
