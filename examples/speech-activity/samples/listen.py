# Yours: written once, never touched by `make update`.
"""Print where speech starts and ends in a WAV file, or in raw sound while it comes from a microphone:

    export PYTHONPATH=src
    .venv/bin/python samples/listen.py samples/speech.wav
    arecord --quiet --file-type raw --format S16_LE --rate 16000 | .venv/bin/python samples/listen.py

Both have one channel of 16,000 samples a second, 16 bits each. TRITON_URL names the server.
"""

import os
import random
import sys
import wave
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import BinaryIO

import numpy as np

from speech_activity import Client, InferenceError

RATE, CHUNK, WIDTH = 16_000, 512, 2


def read_wav(path: str) -> Iterator[bytes]:
    """Yield the sound of a WAV file in chunks, of which the last may be shorter."""
    with wave.open(path) as file:
        if (file.getframerate(), file.getsampwidth(), file.getnchannels()) != (RATE, WIDTH, 1):
            command = f"ffmpeg -i {path} -ar {RATE} -ac 1 -c:a pcm_s16le OUT.wav"
            raise ValueError(f"{path}: has another format; convert it: {command}")
        yield from iter(partial(file.readframes, CHUNK), b"")


def read_raw(file: BinaryIO) -> Iterator[bytes]:
    """Yield raw sound in chunks, of which the last may be shorter."""
    return iter(partial(file.read, CHUNK * WIDTH), b"")


def listen(client: Client, chunks: Iterable[bytes]) -> Iterator[tuple[float, str, int]]:
    """Yield of each chunk of a stream the probability of speech, the event or "", and its sample.

    A chunk is sent when the next one is there, because the last one ends the sequence.
    """
    sequence, start = random.randrange(1, 2**63), True
    ahead = iter(chunks)
    chunk = next(ahead, None)
    while chunk is not None:
        following = next(ahead, None)
        samples = np.frombuffer(chunk.ljust(CHUNK * WIDTH, b"\0"), "<i2")
        end = following is None
        answer = client.speech_activity([samples], sequence=sequence, start=start, end=end)
        yield answer.PROBABILITY.item(), answer.EVENT.item().decode(), answer.AT.item()
        start, chunk = False, following


def main() -> None:
    chunks = read_wav(sys.argv[1]) if len(sys.argv) > 1 else read_raw(sys.stdin.buffer)
    with Client(os.environ.get("TRITON_URL", "http://127.0.0.1:8000")) as client:
        for _, event, at in listen(client, chunks):
            if event:
                print(f"{at / RATE:6.2f} s  {event}", flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        try:
            main()
        except (InferenceError, OSError, ValueError, wave.Error) as error:
            raise SystemExit(f"listen.py: {error}") from None
