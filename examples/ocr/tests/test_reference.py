# Yours: written once, never touched by `make update`.
"""Compares what is served with what the models' own package reads, which tests/reference/ has."""

import json
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from steps.read import Line, tabulate
from triton_ensemble.testing.reference import *  # noqa: F403

TOLERANCES = {"BOX": {"rtol": 0, "atol": 1}, "SCORE": {"rtol": 0, "atol": 1e-3}}
READ = json.loads(Path(__file__).with_name("reference").joinpath("read.json").read_text())
SAMPLES = Path(__file__).parents[1] / "samples"


def pipeline(inputs: dict[str, NDArray[Any]]) -> Any:
    """Return the outputs that the ensemble must have for a sample: the package's, as it was recorded."""
    pages = {(SAMPLES / name).read_bytes(): lines for name, lines in READ.items()}
    images = inputs["IMAGE"][:, 0]
    if not pages.keys() >= {*images}:
        pytest.skip("has a new image; tests/reference/original.py says how to record it")
    return tabulate(
        [[Line(text.encode(), *place) for text, *place in pages[image]] for image in images]
    )
