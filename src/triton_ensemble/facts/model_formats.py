"""Formats of model files, recognised by the bytes at both ends. A big file is not read as a whole."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import BinaryIO, NamedTuple

ONNX, TORCH, IR, ENGINE = "ONNX", "TorchScript", "OpenVINO's XML", "a TensorRT engine"
AOTI = "an AOTInductor package"
ZIP, SAVED, PICKLE = "a zip archive", "a file of torch.save or torch.export", "a pickle"
EMPTY, POINTER = "an empty file", "only Git LFS's pointer to the file"
# By a file's ending: what Triton's backend reads, then what one of your own may.
BY_ENDING = {".onnx": (ONNX,), ".pt": (TORCH, SAVED, ZIP, PICKLE), ".pt2": (AOTI,), ".xml": (IR,)}

HEAD_BYTES, TAIL_BYTES, MOST_FIELDS = 4 << 10, 1 << 20, 10_000
HEADS = {
    POINTER: rb"version https://git-lfs",
    ENGINE: rb"[fp]trt",
    IR: rb"(\xef\xbb\xbf)?\s*<(\?xml.*?<)?net\b",
    PICKLE: rb"\x80([\x02\x03][]()}cX\x8a]|[\x04\x05]\x95)",
    "HDF5": rb"\x89HDF\r\n\x1a\n",
    ZIP: rb"PK\x03\x04",
    ONNX: rb"\x08[\x01-\x20][\x12\x1a\x22\x28\x32\x3a\x42\x72]",  # its version, and a field
}
GRAPH = 7  # the field that tells ONNX from other formats of Protobuf
FIXED_BYTES = {1: 8, 5: 4}  # by the wire type of a field


class Content(NamedTuple):
    """The format of a file, empty if it is not known, and whether the file is all there."""

    format: str = ""
    is_whole: bool = True


def recognise(path: Path) -> Content:
    """Return what is in a regular file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        begins = (name for name, begin in HEADS.items() if re.match(begin, head, re.DOTALL))
        format = next(begins, "") if head else EMPTY
        if format == ONNX:
            return _read_onnx(file, size)
        file.seek(max(size - TAIL_BYTES, 0))
        tail = file.read(TAIL_BYTES) if format in (ZIP, IR) else b""
        if format == ZIP:
            return Content(_name_archive(tail), zipfile.is_zipfile(file))
        return Content(format, format != IR or bool(re.search(rb"</net\s*>", tail)))


def _name_archive(tail: bytes) -> str:
    """Return what a zip archive is by the names at its end, if they are all in these bytes."""
    if b"/constants.pkl" in tail:
        return TORCH
    if b"/data/aotinductor/" in tail:
        return AOTI
    count = int.from_bytes(tail[-12:-10], "little")
    has_all = tail[-22:-18] == b"PK\5\6" and tail.count(b"PK\1\2") >= count
    is_saved = b"/data.pkl" in tail or b"/models/model.json" in tail
    return SAVED if has_all and is_saved else ZIP


def _read_onnx(file: BinaryIO, size: int) -> Content:
    """Return ONNX if a graph is among the fields of a Protobuf message."""
    end, has_graph = 0, False
    try:
        for _ in range(MOST_FIELDS):
            if end >= size:
                break
            file.seek(end)
            number, kind = divmod(_read_varint(file), 8)
            length = FIXED_BYTES.get(kind) or _read_varint(file)
            if kind not in (0, 2, *FIXED_BYTES):
                return Content()
            end = file.tell() + (length if kind else 0)
            has_graph |= number == GRAPH
    except EOFError:
        end = size + 1
    return Content(ONNX, end <= size) if has_graph else Content()


def _read_varint(file: BinaryIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        if not (byte := file.read(1)):
            raise EOFError
        value |= (byte[0] & 127) << shift
        if byte[0] < 128:
            break
    return value
