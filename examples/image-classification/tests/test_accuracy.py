# Yours: written once, never touched by `make update`.
"""The served ensemble on digits that the model was not trained on."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.digits import classifier, encode, split


class Client(Protocol):
    max_batch_size: int

    def infer(self, inputs: dict[str, NDArray[np.object_]]) -> dict[str, NDArray[np.object_]]: ...


def test_the_ensemble_is_as_accurate_as_the_model_it_serves(client: Client) -> None:
    _, held_out = split()
    images = np.array([[encode(pixels)] for pixels in held_out.pixels], dtype=np.object_)
    starts = range(0, len(images), client.max_batch_size)
    batches = [images[start : start + client.max_batch_size] for start in starts]
    labels = np.concatenate([client.infer({"IMAGE": batch})["LABEL"] for batch in batches])
    served = np.mean(labels[:, 0].astype(int) == held_out.digits)
    assert served > 0.95
    assert abs(served - classifier().score(*held_out)) <= 0.01
