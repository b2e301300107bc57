# Yours: written once, never touched by `make update`.
"""Compares what is served with what the model's own package finds, which tests/reference/ has."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from steps.postprocess import Objects, tabulate
from triton_ensemble.testing.reference import *  # noqa: F403

TOLERANCES = {"BOX": {"rtol": 0, "atol": 1}, "SCORE": {"rtol": 0, "atol": 5e-3}}
FOUND = json.loads(Path(__file__).with_name("reference").joinpath("found.json").read_text())
SAMPLES = Path(__file__).parents[1] / "samples"


def pipeline(inputs: dict[str, NDArray[Any]]) -> Any:
    """Return the outputs that the ensemble must have for a sample: the package's, as it was recorded."""
    found = {(SAMPLES / name).read_bytes(): objects for name, objects in FOUND.items()}
    images = inputs["IMAGE"][:, 0]
    if not found.keys() >= {*images}:
        pytest.skip("has a new image; tests/reference/original.py says how to record it")
    return tabulate([read_objects(found[image]) for image in images])


def read_objects(recorded: list[list[Any]]) -> Objects:
    labels, boxes, scores = zip(*recorded, strict=True) if recorded else ([], [], [])
    names = [label.encode() for label in labels]
    return Objects(names, np.array(boxes, np.float32).reshape(-1, 4), np.array(scores, np.float32))
