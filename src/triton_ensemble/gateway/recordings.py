"""A WAV file as the rows of an input: the chunks of its samples, which are the requests of one sequence."""

from __future__ import annotations

import io
import wave

import numpy as np

from triton_ensemble.client import Array, Tensor, Tensors
from triton_ensemble.gateway.refusal import Refusal

BEGIN = b"RIFF"
HEAD_BYTES = 64 << 10  # before the samples: `wave` takes long for millions of other chunks


def can_be(tensors: Tensors, tensor: Tensor) -> bool:
    """Return whether a recording may be the rows of an input: rows of a number of INT16, in a pipeline of sequences."""
    is_chunk = tensor.datatype == "INT16" and len(tensor.dims) == 1 and tensor.dims[0] > 0
    return tensors.SEQUENTIAL and tensors.MAX_BATCH_SIZE > 0 and is_chunk


def read_rows(name: str, tensor: Tensor, content: bytes) -> list[Array]:
    """Return a recording's samples, shape [rows, *dims], with zeros after the last; Refusal 400 for another format."""
    [size] = tensor.dims
    try:
        wave.open(io.BytesIO(content[:HEAD_BYTES])).close()
        with wave.open(io.BytesIO(content)) as file:
            channels, bits = file.getnchannels(), 8 * file.getsampwidth()
            frames = file.readframes(file.getnframes())
    except (EOFError, RuntimeError, wave.Error):  # as `wave` tells of chunks that are wrong
        raise Refusal(400, f"{name}: is no WAV file of PCM samples") from None
    if (channels, bits) != (1, 16):
        found = f"channels: {channels}, bits a sample: {bits}"
        raise Refusal(400, f"{name}: has {found}; send one channel of 16 bits")
    samples = np.frombuffer(frames, "<i2", len(frames) // 2)
    if not samples.size:
        raise Refusal(400, f"{name}: the WAV file lacks samples")
    return list(np.pad(samples, (0, -len(samples) % size)).reshape(-1, size))
