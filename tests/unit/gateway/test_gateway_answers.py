"""In which form the gateway answers: JSON, or the one image that a request prefers."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest

from triton_ensemble.gateway.answers import (
    PIECE,
    format_json,
    image,
    outputs_as_json,
)
from triton_ensemble.gateway.predict import Answer

PNG = b"\x89PNG\r\n\x1a\n"
WEBP, WAV = (b"RIFF\x24\0\0\0" + kind for kind in (b"WEBPVP8 ", b"WAVEfmt "))


def kind(content: bytes, accept: str) -> str | None:
    found = image(Answer([{"OUT": np.array([[content]], object)}], 1), accept)
    return found and found.kind


@pytest.mark.parametrize(
    ("accept", "is_image"),
    [
        ("image/png", True),
        ("image/*", True),
        ("IMAGE/PNG", True),
        ("image/*, application/json", True),
        ("image/*;q=0.9, */*;q=0.1", True),
        ("text/html, image/png, */*;q=0.8", True),
        ("application/json;q=0.5, image/png", True),
        ("image/*;q=0.5, application/json", False),
        ("application/json, image/*", False),
        ("image/png;q=0, image/*", False),
        ("image/jpeg", False),
        ("*/*", False),
        ("", False),
        ("image/png;q=much", True),
        (";;q=,,", False),
    ],
)
def test_an_image_is_answered_where_it_is_preferred(accept: str, is_image: bool) -> None:
    assert kind(PNG, accept) == ("image/png" if is_image else None)


def test_a_sound_is_no_image() -> None:
    assert (kind(WEBP, "image/*"), kind(WAV, "image/*")) == ("image/webp", None)


def test_rows_that_triton_answers_apart_may_differ_in_length() -> None:
    parts = [
        {"N": np.array([[2.0, 3.0]], np.float32), "TEXT": np.array([[b"a", b"b"]], object)},
        {"N": np.zeros((1, 0), np.float32), "TEXT": np.zeros((1, 0), object)},
    ]
    assert json.loads(format_json(Answer(parts, 2), [])) == {
        "N": [[2, 3], []],
        "TEXT": [["a", "b"], []],
    }
    assert json.loads(format_json(Answer(parts, 3, {1: ValueError("bad")}), [])) == {
        "N": [[2, 3], None, []],
        "TEXT": [["a", "b"], None, []],
        "errors": [{"row": 1, "error": "bad"}],
    }


@pytest.mark.parametrize("shape", [(1, 3, 1 << 20), (3, 1 << 20, 2), (1 << 21,)])
def test_large_arrays_are_written_in_pieces(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape)
    assert json.loads(outputs_as_json({"N": array})) == {"N": array.tolist()}
    failed = Answer([{"N": array[:1]}], 2, {1: ValueError("bad")})
    assert json.loads(format_json(failed, []))["N"] == [array[0].tolist(), None]


def test_long_texts_are_written_in_pieces() -> None:
    text = '\0"é😀a' * (1 << 20)
    array = np.array([[text.encode(), b"a"]], object)
    assert json.loads(outputs_as_json({"TEXT": array})) == {"TEXT": [[text, "a"]]}


def test_a_large_answer_is_in_memory_once() -> None:
    outputs = {"A": np.zeros((64, PIECE), np.int8), "B": np.zeros(1, np.int8)}
    tracemalloc.start()
    content = outputs_as_json(outputs)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * len(content)
    assert content.endswith(b'0]],"B":[0]}')
