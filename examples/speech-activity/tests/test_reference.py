# Yours: written once, never touched by `make update`.
"""Compares what is served with what the model's own package hears, which tests/reference/ has."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from samples.listen import listen, read_wav
from triton_ensemble.testing.reference import *  # noqa: F403

TOLERANCES = {"PROBABILITY": {"rtol": 0, "atol": 1e-4}}
HEARD = json.loads(Path(__file__).with_name("reference").joinpath("heard.json").read_text())
SAMPLES = Path(__file__).parents[1] / "samples"
STREAMS = 16


def pipeline(inputs: dict[str, NDArray[Any]]) -> Any:
    """Return the outputs that the ensemble must have for a sample: the package's, as it was recorded."""
    for path in SAMPLES.glob("*.json"):
        chunk = json.loads(path.read_text())["inputs"]["AUDIO"]
        if chunk == inputs["AUDIO"].tolist() and path.name in HEARD:
            return {"PROBABILITY": np.array([HEARD[path.name]["PROBABILITY"]], np.float32)}
    return pytest.skip("has a new chunk; tests/reference/original.py says how to record it")


@pytest.mark.parametrize("name", [name for name in HEARD if name.endswith(".wav")])
def test_a_stream_is_heard_as_by_the_package(client: Any, name: str) -> None:
    heard = [*listen(client, read_wav(str(SAMPLES / name)))]
    probabilities = [probability for probability, _, _ in heard]
    np.testing.assert_allclose(probabilities, HEARD[name]["PROBABILITY"], rtol=0, atol=1e-4)
    assert [[event, at] for _, event, at in heard if event] == HEARD[name]["EVENTS"]


def test_streams_at_once_are_heard_as_each_alone(client: Any) -> None:
    """Each begins at another chunk, so that a batch has chunks of different places."""
    chunks = [*read_wav(str(SAMPLES / "speech.wav"))]
    streams = [chunks[first : first + 60] for first in range(0, 5 * STREAMS, 5)]

    def hear(stream: list[bytes]) -> list[tuple[float, str, int]]:
        return [*listen(client, stream)]

    with ThreadPoolExecutor(STREAMS) as threads:
        at_once = [*threads.map(hear, streams)]
    for heard, alone in zip(at_once, map(hear, streams), strict=True):
        np.testing.assert_allclose([p for p, *_ in heard], [p for p, *_ in alone], atol=1e-4)
        assert [event for _, *event in heard] == [event for _, *event in alone]
