# Yours: written once, never touched by `make update`.
"""The Python step alone, without a server and without models."""

import asyncio
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from steps.sound import CHUNK, MARGIN, MOST, RATE, find_utterances, read_sound
from steps.transcribe import END, Step, join
from triton_step import Context, InvalidRequest, SequencePosition

Tensors = dict[str, NDArray[Any]]
LOUD, QUIET = np.full(CHUNK, 9000, np.int16), np.zeros(CHUNK, np.int16)


async def detect(audio: NDArray[np.int16], **states: NDArray[Any]) -> Tensors:
    speech = (np.abs(audio).max(axis=2) > 100).astype(np.float32)
    return {"probability": speech} | {f"next_{name}": state for name, state in states.items()}


async def encode(features: NDArray[np.float32]) -> Tensors:
    return {"keys": features, "values": features}


async def decode(token: NDArray[Any], place: NDArray[Any], memory: Any, **heard: Any) -> Tensors:
    """Say `hey` in nine tokens, so in two calls."""
    said = [[1, 1, 1, 1, 1, 1, 1, 1], [1, 1, END]][place.item() // 8]
    pieces = [["", "Ġ", "h", "", "", "", "", ""], ["e", "y", ""]][place.item() // 8]
    return {
        "next_tokens": np.array([said]),
        "pieces": np.array([[piece.encode() for piece in pieces]], np.object_),
        "scores": np.full((1, len(said)), np.log(0.5), np.float32),
        "next_memory": memory,
    }


def wav(*chunks: NDArray[np.int16], rate: int = RATE) -> bytes:
    file = BytesIO()
    soundfile.write(file, np.concatenate([QUIET[:0], *chunks]), rate, format="WAV")
    return file.getvalue()


def listen(step: Step, *parts: bytes, stream: int = 1) -> list[Any]:
    """Return the outputs of each part of a recording."""
    last = len(parts) - 1
    answers = []
    for i, part in enumerate(parts):
        position = SequencePosition(stream, i == 0, i == last)
        answer: Any = asyncio.run(step(position, AUDIO=np.array([[part]], np.object_)))
        answers.append([output.tolist()[0] for output in answer.values()])
    return answers


@pytest.fixture
def step() -> Step:
    return Step(Context(calls=SimpleNamespace(detect=detect, encode=encode, decode=decode)))


def test_a_recording_has_its_utterances_and_their_times(step: Step) -> None:
    [(texts, starts, ends, scores)] = listen(
        step, wav(*[QUIET] * 10, *[LOUD] * 20, *[QUIET] * 40, *[LOUD] * 5)
    )
    assert texts == [b"hey", b"hey"]
    assert np.allclose([starts, ends], np.array([[10, 70], [30, 75]]) * 0.032)
    assert np.allclose(scores, 0.5)


def test_an_utterance_comes_with_the_part_after_which_it_is_over(step: Step) -> None:
    parts = [*[QUIET] * 10, *[LOUD] * 20, *[QUIET] * 40]
    answers = listen(step, *(wav(part[: CHUNK // 2], part[CHUNK // 2 :]) for part in parts))
    assert [i for i, answer in enumerate(answers) if answer[0]] == [10 + 20 + 15]
    assert answers[45][1:3] == [pytest.approx([0.32]), pytest.approx([0.96])]
    assert not step.streams


def test_long_speech_is_cut_where_it_is_quietest() -> None:
    speech = np.full(2 * MOST, 0.9, np.float32)
    speech[600] = 0.6
    spans, kept = find_utterances(speech, ended=False)
    assert spans == [(0, 600), (600, 600 + MOST // 2)]
    assert kept == 600 + MOST // 2 - MARGIN


def test_any_rate_and_any_channels_are_heard() -> None:
    tone = np.sin(np.arange(44_100) * 440 * 2 * np.pi / 44_100)
    file = BytesIO()
    soundfile.write(file, np.stack([tone, tone], axis=1) / 2, 44_100, format="FLAC")
    sound = read_sound(file.getvalue())
    assert len(sound) == RATE
    assert np.abs(np.fft.rfft(sound)).argmax() == 440


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "its 0 bytes are not a WAV, FLAC, OGG or MP3 file"),
        (b"RIFF", "its 4 bytes are not a WAV"),
        (wav(), "lacks samples"),
        (wav(np.zeros(601 * 100, np.int16), rate=100), "longer than 600 s; send it in parts"),
    ],
)
def test_another_file_is_refused(step: Step, data: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        listen(step, data)


def test_a_character_of_several_tokens() -> None:
    assert join(["Ġna", "Ã", "¯", "ve"]) == "naïve".encode()


def test_a_stream_that_breaks_off_is_dropped(step: Step) -> None:
    position = SequencePosition(1, True, False)
    asyncio.run(step(position, AUDIO=np.array([[wav(QUIET)]], np.object_)))
    step.streams[1].used -= 100
    listen(step, wav(QUIET), stream=2)
    assert not step.streams
