"""The memory that requests count: together what they hold, and each alone what its errors may take."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from triton_ensemble.gateway.admission import (
    ERROR_BYTES,
    OBJECT_BYTES,
    Admission,
    Body,
)
from triton_ensemble.gateway.bodies import is_json
from triton_ensemble.gateway.forms import read_rows
from triton_ensemble.gateway.refusal import Refusal
from triton_ensemble.gateway.settings import Settings

MOST = 100  # values of a request of typed JSON
SETTINGS = Settings(memory_bytes=MOST * ERROR_BYTES + 8000)


def hold(admission: Admission, values: int, *, typed: bool, kind: str = "application/json") -> Body:
    body = Body(admission, {}, is_json=is_json({"content-type": kind}), is_typed=typed)
    body.add(b"1," * values)
    return body


def test_requests_do_not_add_up_what_their_errors_may_take() -> None:
    admission = Admission(SETTINGS)
    for _ in range(2):
        hold(admission, MOST, typed=True)
    assert admission.held_bytes < ERROR_BYTES * MOST


@pytest.mark.parametrize(("typed", "kind"), [(False, "application/json"), (True, "image/png")])
def test_only_typed_json_leaves_room_for_errors(typed: bool, kind: str) -> None:
    hold(Admission(SETTINGS), 2 * MOST, typed=typed, kind=kind)
    with pytest.raises(Refusal, match="too much memory") as refused:
        hold(Admission(SETTINGS), 2 * MOST, typed=True)
    assert refused.value.status == 413


def test_a_request_lets_go_of_all_it_counted() -> None:
    admission = Admission(SETTINGS)
    hold(admission, MOST, typed=True).close()
    assert admission.held_bytes == 0


def test_json_of_many_objects_is_refused_before_all_of_it_is_there() -> None:
    body = Body(Admission(SETTINGS), {}, is_json=True, is_typed=False)
    body.add(b"[]" * MOST)
    with pytest.raises(Refusal, match="too much memory"):
        body.add(b"[]" * (SETTINGS.memory_bytes // OBJECT_BYTES - MOST))


@pytest.mark.parametrize(("is_json", "most"), [(True, 16 << 20), (False, 64 << 20)])
def test_json_has_a_limit_of_its_own(is_json: bool, most: int) -> None:
    def begin(length: int) -> Body:
        headers = {"content-length": str(length)}
        return Body(Admission(Settings()), headers, is_json=is_json, is_typed=False)

    begin(most)
    with pytest.raises(Refusal, match=f"may have {most} bytes; send"):
        begin(most + 1)


@pytest.mark.parametrize(
    "value",
    [b'"a":0,', b'"a" :0,', b'"\\":":0,', b'"aaa\\\\":0,', b'"\\\\\\\\":0,', b"0,", b"[[[],"],
)
def test_json_that_takes_long_is_refused_before_all_of_it_is_there(value: bytes) -> None:
    body = Body(Admission(Settings()), {}, is_json=True, is_typed=False)

    def send() -> None:
        for _ in range(16):
            body.add(value * (1_000_000 // len(value)))

    with pytest.raises(Refusal, match="too many values"):
        send()


@pytest.mark.parametrize(("depth", "count"), [(1, 200_000), (2, 150_000), (3, 80_000)])
def test_a_long_text_of_json_is_a_text(depth: int, count: int) -> None:
    """Also if the JSON in it has such texts, whose quotes follow three or seven backslashes."""
    text = json.dumps([{"id": 1, "name": "a cat"}] * count)
    for _ in range(depth - 1):
        text = json.dumps(text)
    body = Body(Admission(Settings()), {}, is_json=True, is_typed=False)
    body.add(json.dumps({"TEXT": text}).encode())


def test_a_recording_of_chunks_without_sound_takes_no_time() -> None:
    tensor: Any = SimpleNamespace(dims=(512,))
    content = b"RIFF\0\0\0\4WAVE" + b"none\0\0\0\0" * 4_000_000
    began = time.process_time()
    with pytest.raises(Refusal, match="not a WAV file"):
        read_rows("SOUND", tensor, content)
    assert time.process_time() - began < 1
