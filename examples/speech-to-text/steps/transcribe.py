# Yours: written once, never touched by `make update`.
"""Step transcribe: a recording, or its parts as they come -> the utterances in it, as texts with their times.

Tested without a server by tests/test_steps.py.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from step_types import TranscribeOutputs
from steps.sound import CHUNK, MARGIN, RATE, Samples, find_utterances, prepare, read_sound
from triton_step import Context, InvalidRequest, SequencePosition

START, END = 50257, 50256  # tokens of Whisper's English models
MOST_TOKENS = 224  # of an utterance
PLACES = 32  # for tokens that the decoder remembers, and as many again when they are full; a call needs 8
TOGETHER = 8  # utterances of a request that are decoded at once
FORGOTTEN = 60  # seconds after which a stream that broke off is dropped

# The characters that stand for bytes in the words of the tokens, as GPT-2 has them.
PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
OTHERS = [byte for byte in range(256) if byte not in PRINTED]
BYTES = {chr(byte): byte for byte in PRINTED} | {
    chr(256 + i): byte for i, byte in enumerate(OTHERS)
}


class Utterance(NamedTuple):
    text: bytes
    start: float  # seconds from the begin of the stream
    end: float
    score: float  # the mean probability of its tokens


@dataclass
class Stream:
    """The sound of a stream that is not yet text, in whole chunks, and the rest of a chunk."""

    sound: Samples = field(default_factory=lambda: np.zeros(0, np.int16))
    speech: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    context: NDArray[np.float32] = field(default_factory=lambda: np.zeros((1, 64), np.float32))
    memory: NDArray[np.float32] = field(default_factory=lambda: np.zeros((1, 2, 128), np.float32))
    gone: int = 0  # chunks before `sound`
    used: float = field(default_factory=time.monotonic)

    def drop(self, chunks: int) -> None:
        self.sound, self.speech = self.sound[chunks * CHUNK :], self.speech[chunks:]
        self.gone += chunks


class Step:
    """AUDIO STRING[1, 1] -> TEXT STRING[1, utterances], START, END and SCORE FP32[1, utterances].

    AUDIO holds the bytes of a WAV, FLAC, OGG or MP3 file: a recording, or the next part of one in a sequence. An
    utterance comes with the part after which it is over. Raises InvalidRequest for anything else.
    """

    def __init__(self, context: Context) -> None:
        self.calls = context.calls
        self.streams: dict[int | str, Stream] = {}

    async def __call__(
        self, position: SequencePosition, /, AUDIO: NDArray[np.object_]
    ) -> TranscribeOutputs:
        if position.start:
            self._forget()
            self.streams[position.id] = Stream()
        stream = self.streams[position.id]
        stream.used = time.monotonic()
        if position.end:
            del self.streams[position.id]
        samples = read_sound(AUDIO.item())
        if not samples.size and position.start:
            raise InvalidRequest("AUDIO: the file lacks samples; send a recording")
        await self._listen(stream, samples, position.end)
        spans, kept = find_utterances(stream.speech, position.end)
        turns = asyncio.Semaphore(TOGETHER)
        said = await asyncio.gather(*(self._write(stream, *span, turns) for span in spans))
        stream.drop(kept)
        return tabulate([utterance for utterance in said if utterance.text])

    async def _listen(self, stream: Stream, samples: Samples, ended: bool) -> None:
        """Add sound to a stream, and the probability of speech in each chunk that is whole."""
        stream.sound = np.concatenate([stream.sound, samples])
        if ended:
            stream.sound = np.pad(stream.sound, (0, -len(stream.sound) % CHUNK))
        known, whole = len(stream.speech), len(stream.sound) // CHUNK
        if known == whole:
            return
        chunks = stream.sound[known * CHUNK : whole * CHUNK].reshape(1, -1, CHUNK)
        heard = await self.calls.detect(audio=chunks, context=stream.context, memory=stream.memory)
        stream.context, stream.memory = heard["next_context"], heard["next_memory"]
        stream.speech = np.concatenate([stream.speech, heard["probability"][0]])

    async def _write(
        self, stream: Stream, first: int, last: int, turns: asyncio.Semaphore
    ) -> Utterance:
        start, end = max(0, first - MARGIN), last + MARGIN
        sound = stream.sound[start * CHUNK : end * CHUNK]
        async with turns:
            text, score = await self.decode(prepare(sound))
        seconds = CHUNK / RATE
        return Utterance(
            text, (stream.gone + first) * seconds, (stream.gone + last) * seconds, score
        )

    async def decode(self, features: NDArray[np.float32]) -> tuple[bytes, float]:
        """Return the text that Whisper hears in features FP32[80, frames], and the mean probability of its tokens."""
        heard = await self.calls.encode(features=features[None])
        memory = np.zeros((1, 48, PLACES, 64), np.float32)
        pieces: list[str] = []
        scores: list[float] = []
        token, place = START, 0
        while token != END and place < MOST_TOKENS:
            if place == memory.shape[2]:
                memory = np.pad(memory, ((0, 0), (0, 0), (0, PLACES), (0, 0)))
            answer = await self.calls.decode(
                token=np.array([[token]]),
                place=np.array([[place]]),
                memory=memory,
                keys=heard["keys"],
                values=heard["values"],
            )
            tokens = answer["next_tokens"][0].tolist()
            said = tokens.index(END) if END in tokens else len(tokens)
            pieces += [piece.decode() for piece in answer["pieces"][0, :said]]
            scores += answer["scores"][0, : said + 1].tolist()
            token, place, memory = (
                tokens[min(said, len(tokens) - 1)],
                place + said,
                answer["next_memory"],
            )
        return join(pieces[1:]), float(np.exp(np.mean(scores[1:])))

    def _forget(self) -> None:
        """Drop streams that have broken off, of which Triton says nothing."""
        oldest = time.monotonic() - FORGOTTEN
        self.streams = {name: each for name, each in self.streams.items() if each.used > oldest}


def join(pieces: list[str]) -> bytes:
    """Return the text of tokens, whose characters stand for bytes. Some characters need several tokens."""
    text = bytes(BYTES[character] for piece in pieces for character in piece)
    return text.decode(errors="replace").strip().encode()


def tabulate(said: list[Utterance]) -> TranscribeOutputs:
    """Return utterances as tensors of one row."""
    columns = [*zip(*said, strict=True)] or [()] * 4
    texts, *numbers = columns
    start, end, score = (np.array([column], np.float32) for column in numbers)
    return {
        "TEXT": np.array([texts], np.object_).reshape(1, -1),
        "START": start,
        "END": end,
        "SCORE": score,
    }
