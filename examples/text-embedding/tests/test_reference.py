# Yours: written once, never touched by `make update`.
"""Compares what is served with the embeddings of the model's own package, which tests/reference/ has."""

import json
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_ensemble.testing.reference import *  # noqa: F403

TOLERANCES = {"EMBEDDING": {"rtol": 0, "atol": 1e-5}}
EMBEDDINGS: dict[str, list[float]] = json.loads(
    Path(__file__).with_name("reference").joinpath("embeddings.json").read_text(encoding="utf-8")
)


class Served(Protocol):
    max_batch_size: int

    def infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]: ...


def pipeline(inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the outputs that the ensemble must have for a sample: the package's, as it was recorded."""
    texts = [text.decode() for text in inputs["TEXT"][:, 0]]
    if not EMBEDDINGS.keys() >= {*texts}:
        pytest.skip("has a new text; tests/reference/original.py says how to record it")
    return {"EMBEDDING": np.array([EMBEDDINGS[text] for text in texts], np.float32)}


@pytest.mark.parametrize("rows", [1, 2, 0], ids=["alone", "in pairs", "many"])
def test_texts_are_embedded_as_by_the_package(client: Served, rows: int) -> None:
    """Whatever the length to which the others in a batch have it padded."""
    texts = np.array([[text.encode()] for text in EMBEDDINGS], np.object_)
    rows = rows or client.max_batch_size
    for first in range(0, len(texts), rows):
        batch = np.roll(texts, -first, axis=0)[:rows]
        wanted = pipeline({"TEXT": batch})["EMBEDDING"]
        np.testing.assert_allclose(client.infer({"TEXT": batch})["EMBEDDING"], wanted, atol=1e-5)
