# Yours: written once, never touched by `make update`.
"""Step mark: the probability of speech in each chunk of a stream -> where speech starts and ends.

Tested without a server by tests/test_steps.py.
"""

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from step_types import MarkOutputs
from triton_step import Context, SequencePosition

RATE = 16_000
CHUNK = 512  # samples
SPEECH, SILENCE = 0.5, 0.35  # the probability from which it is speech, and below which it is not
LEAST_SILENCE = RATE * 100 // 1000  # samples; a shorter pause is part of the speech
MARGIN = RATE * 30 // 1000  # samples that an utterance has before and after what was heard
FORGOTTEN = 60  # seconds after which a stream that broke off is dropped


@dataclass
class Stream:
    """What is known of a stream so far, in samples."""

    heard: int = 0
    speaks: bool = False
    quiet_since: int = 0  # 0: not since the last speech
    used: float = field(default_factory=time.monotonic)

    def event(self, probability: float) -> tuple[bytes, int]:
        """Return the event of the next chunk and its place, as silero_vad.VADIterator does."""
        self.heard += CHUNK
        if probability >= SPEECH:
            self.quiet_since = 0
            if not self.speaks:
                self.speaks = True
                return b"start", max(0, self.heard - MARGIN - CHUNK)
        elif probability < SILENCE and self.speaks:
            self.quiet_since = self.quiet_since or self.heard
            if self.heard - self.quiet_since >= LEAST_SILENCE:
                at, self.quiet_since, self.speaks = self.quiet_since, 0, False
                return b"end", at + MARGIN - CHUNK
        return b"", -1


class Step:
    """SPEECH FP32[1, 1] -> PROBABILITY FP32[1, 1], EVENT STRING[1, 1], AT INT64[1, 1].

    PROBABILITY is SPEECH, EVENT is start, end or "". Speech that goes on in the last chunk of a stream ends with it.
    """

    def __init__(self, context: Context) -> None:
        self.streams: dict[int | str, Stream] = {}

    def __call__(self, position: SequencePosition, /, SPEECH: NDArray[np.float32]) -> MarkOutputs:
        if position.start:
            self._forget()
            self.streams[position.id] = Stream()
        stream = self.streams[position.id]
        stream.used = time.monotonic()
        event, at = stream.event(SPEECH.item())
        if position.end:
            del self.streams[position.id]
            if stream.speaks and not event:
                event, at = b"end", stream.heard
        return {
            "PROBABILITY": SPEECH,
            "EVENT": np.array([[event]], np.object_),
            "AT": np.array([[at]], np.int64),
        }

    def _forget(self) -> None:
        """Drop streams that have broken off, of which Triton says nothing."""
        oldest = time.monotonic() - FORGOTTEN
        self.streams = {name: each for name, each in self.streams.items() if each.used > oldest}
