# Yours: written once, never touched by `make update`.
"""Compares what is served with what the package's model writes by CTranslate2, which tests/reference/ has."""

import json
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from samples.transcribe import read_parts, transcribe
from triton_ensemble.testing.reference import *  # noqa: F403

WRITTEN = json.loads(Path(__file__).with_name("reference").joinpath("written.json").read_text())
SAMPLES = Path(__file__).parents[1] / "samples"
SAID = {
    "newspaper.wav": "he reads the newspaper every day after breakfast",
    "report.wav": "please send the report to the whole team before friday",
    "weather.wav": "the weather was cold but the children played outside",
}


def pipeline(inputs: dict[str, NDArray[Any]]) -> Any:
    """Return the outputs that the ensemble must have for a sample: the package's, as it was recorded."""
    texts = {(SAMPLES / name).read_bytes(): text for name, text in WRITTEN.items()}
    if (sound := inputs["AUDIO"].item()) not in texts:
        pytest.skip("has a new recording; tests/reference/original.py says how to record its text")
    return {"TEXT": np.array([[texts[sound].encode()]], np.object_)}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_recording_in_parts_is_written_as_by_the_package(client: Any, name: str) -> None:
    said = [text for _, _, text in transcribe(client, read_parts(str(SAMPLES / name)))]
    assert said == [WRITTEN[name]]


def test_few_words_are_wrong(client: Any) -> None:
    wrong = count = 0
    for name, sentence in SAID.items():
        answer = client.infer({"AUDIO": np.array([[(SAMPLES / name).read_bytes()]], np.object_)})
        said = sentence.split()
        wrong += count_errors(said, words(b" ".join(answer["TEXT"][0]).decode()))
        count += len(said)
    assert wrong / count < 0.15  # 3 of 27, all in newspaper.wav


def words(text: str) -> list[str]:
    return "".join(c for c in text.lower() if c.isalpha() or c == " ").split()


def count_errors(said: list[str], written: list[str]) -> int:
    """Return how many words are replaced, added or left out."""
    edits = SequenceMatcher(None, said, written).get_opcodes()
    return sum(max(b - a, d - c) for kind, a, b, c, d in edits if kind != "equal")
