"""A WAV file as the rows of an input: the chunks of its samples, which are the requests of one sequence."""

from __future__ import annotations

import io
import wave

import numpy as np

from triton_ensemble.client import Array, Tensor, Tensors
from triton_ensemble.gateway.refusal import Refusal

BEGIN = b"RIFF"


def can_be(tensors: Tensors, tensor: Tensor) -> bool:
    """Return whether a recording may be the rows of an input: rows of a number of INT16, in a pipeline of sequences."""
    is_chunk = tensor.datatype == "INT16" and len(tensor.dims) == 1 and tensor.dims[0] > 0
    return tensors.SEQUENTIAL and tensors.MAX_BATCH_SIZE > 0 and is_chunk


def read_rows(name: str, tensor: Tensor, content: bytes) -> list[Array]:
    """Return a recording's samples, shape [rows, *dims], with zeros after the last; Refusal 400 for another format."""
    [size] = tensor.dims
    try:
        with wave.open(io.BytesIO(content)) as file:
            if (file.getnchannels(), file.getsampwidth()) != (1, 2) or not file.getnframes():
                raise wave.Error
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    except (EOFError, wave.Error):
        raise Refusal(400, f"{name}: is no WAV file of 16 bits and one channel") from None
    return list(np.pad(samples, (0, -len(samples) % size)).reshape(-1, size))
