# Yours: written once, never touched by `make update`.
"""Print what is said in a file, or in raw sound while it comes from a microphone:

    export PYTHONPATH=src
    .venv/bin/python samples/transcribe.py samples/weather.wav
    arecord --quiet --file-type raw --format S16_LE --rate 16000 | .venv/bin/python samples/transcribe.py

A file is a WAV, FLAC, OGG or MP3 of any length. Raw sound has one channel of 16,000 samples a second, 16 bits each.
TRITON_URL names the server.
"""

import os
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from speech_to_text import Client, InferenceError

RATE, SECONDS = 16_000, 1  # of raw sound, and of a part


def read_parts(path: str) -> Iterator[bytes]:
    """Yield a file of sound in WAV files of a second."""
    with soundfile.SoundFile(path) as file:
        for part in file.blocks(file.samplerate * SECONDS, dtype="int16"):
            yield write_part(part, file.samplerate)


def read_raw() -> Iterator[bytes]:
    """Yield the raw sound of standard input in WAV files of a second."""
    while data := sys.stdin.buffer.read(2 * RATE * SECONDS):
        yield write_part(np.frombuffer(data[: len(data) // 2 * 2], "<i2"), RATE)


def write_part(samples: NDArray[np.int16], rate: int) -> bytes:
    """Return samples as a WAV file."""
    file = BytesIO()
    soundfile.write(file, samples, rate, format="WAV")
    return file.getvalue()


def transcribe(client: Client, parts: Iterable[bytes]) -> Iterator[tuple[float, float, str]]:
    """Yield start, end and text of each utterance of a recording, with the part after which it is over.

    A part is sent when the next one is there, because the last one ends the sequence.
    """
    sequence, start = random.randrange(1, 2**63), True
    ahead = iter(parts)
    if (part := next(ahead, None)) is None:
        raise ValueError("the recording lacks samples")
    while part is not None:
        following = next(ahead, None)
        said = client.speech_to_text(
            [[part]], sequence=sequence, start=start, end=following is None
        )
        rows: Any = zip(said.START[0], said.END[0], said.TEXT[0], strict=True)
        for begun, ended, text in rows:
            yield float(begun), float(ended), text.decode()
        start, part = False, following


def main() -> None:
    parts = read_parts(sys.argv[1]) if len(sys.argv) > 1 else read_raw()
    with Client(os.environ.get("TRITON_URL", "http://127.0.0.1:8000")) as client:
        for start, end, text in transcribe(client, parts):
            print(f"{start:7.2f} {end:7.2f}  {text}", flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        try:
            main()
        except (InferenceError, OSError, ValueError, soundfile.SoundFileError) as error:
            raise SystemExit(f"transcribe.py: {error}") from None
