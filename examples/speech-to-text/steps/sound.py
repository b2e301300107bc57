# Yours: written once, never touched by `make update`.
"""Files of sound -> samples -> utterances -> what Whisper hears of them."""

from functools import cache
from io import BytesIO

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from triton_step import InvalidRequest

RATE = 16_000
MOST_SECONDS = 600  # of a request
CHUNK = 512  # samples, of which the probability of speech is known
# In chunks of 32 ms: a shorter pause is part of an utterance, a shorter utterance is a noise, an utterance
# has a margin on both sides, and a longer one is cut at its quietest chunk.
PAUSE, LEAST, MARGIN, MOST = 16, 4, 6, 870
SPEECH = 0.5  # the probability from which it is speech

WINDOWS = (10, 20, 30)  # seconds; Whisper makes up words in shorter ones
FFT, HOP, MELS = 400, 160, 80

Samples = NDArray[np.int16]
Span = tuple[int, int]  # the first chunk, and the one after the last


def read_sound(data: bytes) -> Samples:
    """Return the samples of a file at 16 kHz, the mean of its channels.

    Raises InvalidRequest for a file that libsndfile can't read, and for one that is too long.
    """
    try:
        with soundfile.SoundFile(BytesIO(data)) as file:
            rate = file.samplerate
            channels = file.read(MOST_SECONDS * rate + 1, np.float32, always_2d=True)
    except soundfile.LibsndfileError as error:
        raise InvalidRequest(
            f"AUDIO: its {len(data)} bytes are not a WAV, FLAC, OGG or MP3 file; send the content of "
            "such a file, or convert it: ffmpeg -i FILE -ar 16000 -ac 1 OUT.wav"
        ) from error
    if len(channels) > MOST_SECONDS * rate:
        raise InvalidRequest(
            f"AUDIO: is longer than {MOST_SECONDS} s; send it in parts, as samples/transcribe.py does"
        )
    sound = channels.mean(axis=1) if len(channels) else np.zeros(0, np.float32)
    sound = soxr.resample(sound, rate, RATE)
    return (sound * 2**15).round().clip(-(2**15), 2**15 - 1).astype(np.int16)


def find_utterances(speech: NDArray[np.float32], ended: bool) -> tuple[list[Span], int]:
    """Return the utterances that are over, and the chunk from which sound must be kept."""
    voiced = np.flatnonzero(speech >= SPEECH)
    if not voiced.size:
        return [], max(0, len(speech) - MARGIN)
    breaks = np.flatnonzero(np.diff(voiced) > PAUSE)
    firsts, lasts = voiced[[0, *(breaks + 1)]], voiced[[*breaks, -1]] + 1
    spans: list[Span] = []
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        while last - first > MOST:
            quiet = first + MOST // 2 + int(speech[first + MOST // 2 : first + MOST].argmin())
            spans.append((first, quiet))
            first = quiet
        spans.append((first, last))
    kept = max(0, len(speech) - MARGIN)
    if not ended and len(speech) - spans[-1][1] < PAUSE:
        kept = max(0, spans.pop()[0] - MARGIN)
    return [(first, last) for first, last in spans if last - first >= LEAST], kept


def prepare(samples: Samples) -> NDArray[np.float32]:
    """Return the features of an utterance of up to 30 s, FP32[80, frames]: as Whisper's, with silence after it."""
    seconds = next(size for size in WINDOWS if size * RATE >= len(samples))
    sound = np.zeros(seconds * RATE + FFT, np.float32)
    sound[FFT // 2 : FFT // 2 + len(samples)] = samples / np.float32(2**15)
    sound[: FFT // 2] = sound[FFT : FFT // 2 : -1]
    frames = np.lib.stride_tricks.sliding_window_view(sound, FFT)[: seconds * RATE : HOP]
    window = np.hanning(FFT + 1)[:-1].astype(np.float32)
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    mels = np.log10(np.maximum(_filters() @ power.T, 1e-10))
    features: NDArray[np.float32] = (np.maximum(mels, mels.max() - 8) + 4) / 4
    return features.astype(np.float32)


@cache
def _filters() -> NDArray[np.float64]:
    """Return Slaney's mel filters: 80 triangles over 201 frequencies, linear below 1 kHz and logarithmic above."""
    mels = np.linspace(0, 15 + 27 * np.log(8) / np.log(6.4), MELS + 2)
    corners = np.where(mels < 15, mels * 200 / 3, 1000 * 6.4 ** ((mels - 15) / 27))
    widths = np.diff(corners)
    slopes = corners[:, None] - np.fft.rfftfreq(FFT, 1 / RATE)
    rising, falling = -slopes[:-2] / widths[:-1, None], slopes[2:] / widths[1:, None]
    triangles: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling))
    return triangles * (2 / (corners[2:] - corners[:-2]))[:, None]
