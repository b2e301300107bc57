# Yours: written once, never touched by `make update`.
"""Compares the images that are served with those of the same step without Triton, on the samples."""

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from numpy.typing import NDArray

from models.direct import generated, pixels
from triton_ensemble.testing.owned import Project, Sample, samples

PROJECT = Project.load(Path(__file__).parents[1])
Inputs = dict[str, NDArray[Any]]
SHADES = 2  # of 255: a GPU, or a batch of other rows on one, rounds in another way


class Served(Protocol):
    def infer(self, inputs: Inputs) -> Inputs: ...


def images(client: Served, inputs: Inputs) -> list[NDArray[np.int32]]:
    return [pixels(file) for file in client.infer(inputs)["IMAGE"][:, 0]]


@pytest.mark.parametrize("sample", samples(PROJECT), ids=lambda sample: sample.name)
def test_images_are_those_of_onnx_runtime(client: Served, sample: Sample) -> None:
    wanted = [pixels(file) for file in generated(**sample.inputs)]
    np.testing.assert_allclose(images(client, sample.inputs), wanted, rtol=0, atol=SHADES)


def test_an_image_depends_on_its_prompt_and_seed_and_on_no_other_row(client: Served) -> None:
    texts, seeds = [b"a fox", b"a fox", b"the sea", b"the sea"], [1, 2, 1, 2]
    rows = {
        "PROMPT": np.array(texts, np.object_).reshape(-1, 1),
        "SEED": np.array(seeds).reshape(-1, 1),
    }
    together = images(client, rows)
    for row, image in enumerate(together):
        [alone] = images(client, {name: array[row : row + 1] for name, array in rows.items()})
        np.testing.assert_allclose(image, alone, rtol=0, atol=SHADES)
        others = (np.abs(image - other).mean() for other in together[row + 1 :])
        assert all(difference > 2 * SHADES for difference in others)
