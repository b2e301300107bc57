# Yours: written once, never touched by `make update`.
"""The served ensemble on digits that the models were not trained on, and on what is not a digit."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from models.digits import classifier, encode, split
from models.patches import patches


class Client(Protocol):
    max_batch_size: int

    def infer(self, inputs: dict[str, NDArray[np.object_]]) -> dict[str, NDArray[Any]]: ...


def served(client: Client, files: list[bytes]) -> dict[str, NDArray[Any]]:
    """Return the outputs for all images, in requests of the greatest size: by name, [n]."""
    images = np.array(files, dtype=np.object_).reshape(-1, 1)
    starts = range(0, len(images), client.max_batch_size)
    answers = [client.infer({"IMAGE": images[i : i + client.max_batch_size]}) for i in starts]
    return {name: np.concatenate([a[name] for a in answers])[:, 0] for name in answers[0]}


def test_the_ensemble_is_as_accurate_as_the_model_it_serves(client: Client) -> None:
    _, held_out = split()
    answers = served(client, [encode(pixels) for pixels in held_out.pixels])
    right = answers["DIGIT"] == held_out.digits
    assert right.mean() > 0.95
    assert abs(right.mean() - classifier().score(*held_out)) <= 0.01
    assert answers["IS_DIGIT"].mean() > 0.97


def test_what_is_no_digit_is_screened_out(client: Client) -> None:
    answers = served(client, patches(200))
    assert answers["IS_DIGIT"].mean() < 0.02
    np.testing.assert_array_equal(answers["IS_DIGIT"], answers["NOVELTY"] <= 0)
