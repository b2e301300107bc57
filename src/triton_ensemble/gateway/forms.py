"""Files in requests: the parts of a multipart form (RFC 7578) that is in memory as a whole, and WAV files."""

from __future__ import annotations

import io
import re
import wave
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from triton_ensemble.facts.client import Array, Tensor, Tensors
from triton_ensemble.gateway.refusal import Refusal

BASE64 = "base64"  # in JSON, the key of bytes that are not text
Names = list[str | None]  # of the files that are rows, for errors
BOUNDARY = re.compile(r';\s*boundary=(?:"([^"]+)"|([^;\s"]+))', re.IGNORECASE)
DISPOSITION = re.compile(rb"(?:^|\r\n)content-disposition:([^\r\n]*)", re.IGNORECASE)
PARAMETER = re.compile(
    rb';\s*(name|filename)=(?:"([^"\\]*(?:\\.[^"\\]*)*)"|([^;\s"]+))', re.IGNORECASE
)
END_OF_HEAD = b"\r\n\r\n"
HEAD_BYTES = 8192  # of a part


class Part(NamedTuple):
    """A field or a file of a form. The filename of a field is empty."""

    name: str
    filename: str
    content: bytes


def parts(content_type: str, body: bytes) -> Iterator[Part]:
    """Yield the parts of a request's body one by one, or raise ValueError if it is not a form."""
    if not (found := BOUNDARY.search(content_type)):
        raise ValueError("its Content-Type has no boundary")
    delimiter = b"\r\n--" + (found[1] or found[2]).encode()
    if not body.startswith(delimiter[2:]):
        raise ValueError("it does not begin with its boundary")
    at = len(delimiter) - 2
    while not body.startswith(b"--", at):
        head = body.find(END_OF_HEAD, at, at + HEAD_BYTES)
        content = head + len(END_OF_HEAD)
        end = body.find(delimiter, content)
        if head < 0 or end < 0 or not body.startswith(b"\r\n", at):
            raise ValueError("it ends within a part, or the headers of one are too long")
        yield Part(*_names(body[at:head]), body[content:end])
        at = end + len(delimiter)


def _names(head: bytes) -> tuple[str, str]:
    """Return the name and the file's name that a part's headers say."""
    disposition = DISPOSITION.search(head)
    given = {
        key.lower(): (quoted.replace(b'\\"', b'"') or bare).decode(errors="replace")
        for key, quoted, bare in PARAMETER.findall(disposition[1] if disposition else b"")
    }
    if not given.get(b"name"):
        raise ValueError("a part has no name")
    return given[b"name"], given.get(b"filename", "")


BEGIN = b"RIFF"
WAV_HEAD_BYTES = 64 << 10  # before the samples: `wave` takes long for millions of other chunks


def can_be(tensors: Tensors, tensor: Tensor) -> bool:
    """Return whether a recording may be the rows of an input: rows of a number of INT16, in a pipeline of sequences."""
    is_chunk = tensor.datatype == "INT16" and len(tensor.dims) == 1 and tensor.dims[0] > 0
    return tensors.SEQUENTIAL and tensors.MAX_BATCH_SIZE > 0 and is_chunk


def read_rows(name: str, tensor: Tensor, content: bytes) -> list[Array]:
    """Return a recording's samples, shape [rows, *dims], with zeros after the last.

    Raise Refusal 400 for another format.
    """
    [size] = tensor.dims
    try:
        wave.open(io.BytesIO(content[:WAV_HEAD_BYTES])).close()
        with wave.open(io.BytesIO(content)) as file:
            channels, bits = file.getnchannels(), 8 * file.getsampwidth()
            frames = file.readframes(file.getnframes())
    except (EOFError, RuntimeError, wave.Error):  # as `wave` tells of chunks that are wrong
        raise Refusal(400, f"{name}: is not a WAV file of PCM samples") from None
    if (channels, bits) != (1, 16):
        found = f"channels: {channels}, bits a sample: {bits}"
        raise Refusal(400, f"{name}: has {found}; send one channel of 16 bits")
    samples = np.frombuffer(frames, "<i2", len(frames) // 2)
    if not samples.size:
        raise Refusal(400, f"{name}: the WAV file lacks samples")
    return list(np.pad(samples, (0, -len(samples) % size)).reshape(-1, size))
