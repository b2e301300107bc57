"""The request of the health check, in the form that Triton's HTTP takes: the sample for probes, or zeros."""

from __future__ import annotations

import base64
import json
import random
import struct
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from triton_ensemble.facts.project import Input, Project, read_named_file
from triton_ensemble.facts.reading import read_json

HEADER_LENGTH = "Inference-Header-Content-Length"
FORMATS = {  # of `struct`
    "BOOL": "?",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}
# An empty text is its length, 4 bytes.
SIZES = {"BYTES": 4, "BF16": 2} | {t: struct.calcsize(f"<{f}") for t, f in FORMATS.items()}


class Message(NamedTuple):
    """An HTTP request without its host."""

    path: str
    body: bytes
    headers: dict[str, str]


def messages(project: Project) -> list[Message]:
    """Return the requests to send, one for each row of a sequence.

    Raise ValueError, which names the file, for a sample file that can't be sent.
    """
    encode = _stream_message if project.decoupled else _infer_message
    file = project.probe_file()
    try:
        requests = _split_rows(project, _list_inputs(file) if file else {})
        positions = _iter_positions(project, len(requests))
        return [encode(project, *each) for each in zip(requests, positions, strict=True)]
    except Exception as error:  # whatever it is, the file can't be sent
        raise ValueError(f"{file}: is not a sample request: {error}") from error


def _list_inputs(file: Path) -> dict[str, Any]:
    """Return the inputs of a sample by name, as nested lists."""
    sample = read_json(file)
    if not isinstance(sample, dict) or not isinstance(sample.get("inputs"), dict):
        raise ValueError('it has no "inputs"; write {"inputs": {NAME: [...]}}')
    return {name: _expand_zeros(value) for name, value in sample["inputs"].items()}


def _split_rows(project: Project, inputs: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the inputs of each request, which has one row if the rows are one sequence."""
    values = [value for value in inputs.values() if isinstance(value, list)]
    if project.decoupled or not (project.sequential and project.batched and values):
        return [inputs]
    rows = range(max(1, *map(len, values)))
    return [
        {name: [cells[i]] if isinstance(cells, list) else cells for name, cells in inputs.items()}
        for i in rows
    ]


def _iter_positions(project: Project, count: int) -> Iterator[dict[str, Any]]:
    """Iterate over the parameters of so many requests that are one sequence.

    They are empty if there are no sequences.
    """
    sequence = random.randrange(1, 2**63)
    for i in range(count):
        place = {"sequence_start": i == 0, "sequence_end": i == count - 1}
        yield {"sequence_id": sequence, **place} if project.sequential else {}


def _expand_zeros(value: Any) -> Any:
    """Return nested lists for the shape of a tensor of zeros."""
    return _fill(0, value["zeros"]) if isinstance(value, dict) and "zeros" in value else value


def _fill(cell: Any, shape: list[int]) -> Any:
    return [_fill(cell, shape[1:])] * shape[0] if shape else cell


# A decoupled model answers over HTTP by `generate_stream` alone, which takes JSON, and no position in a sequence.


def _stream_message(project: Project, inputs: dict[str, Any], _: object) -> Message:
    values = inputs or {
        tensor.name: _make_zeros(tensor, _shape(project, tensor)) for tensor in project.inputs
    }
    body = {
        name: [_format_json_cell(project, cell) for cell in _flat(value)]
        for name, value in values.items()
    }
    path = f"/v2/models/{quote(project.ensemble)}/generate_stream"
    return Message(path, json.dumps(body).encode(), {"Content-Type": "application/json"})


def _make_zeros(tensor: Input, shape: list[int]) -> Any:
    """Return zeros of a shape as nested lists. Texts are empty."""
    return _fill({"BYTES": "", "BOOL": False}.get(tensor.datatype, 0), shape)


def _format_json_cell(project: Project, cell: Any) -> Any:
    return _bytes(project, cell).decode() if isinstance(cell, dict) else cell


# Other models take tensors as bytes behind a JSON header: of a body that is JSON alone, Triton
# parses some 5 MB and dies.


def _infer_message(project: Project, inputs: dict[str, Any], position: dict[str, Any]) -> Message:
    sent = [tensor for tensor in project.inputs if not inputs or tensor.name in inputs]
    if inputs:
        parts = [_encode(project, tensor, inputs[tensor.name]) for tensor in sent]
        shapes = [_sample_shape(project, tensor, inputs[tensor.name]) for tensor in sent]
    else:
        shapes = [_shape(project, tensor) for tensor in sent]
        parts = [
            bytes(SIZES[t.datatype] * prod(shape)) for t, shape in zip(sent, shapes, strict=True)
        ]
    described = [
        {
            "name": t.name,
            "datatype": t.datatype,
            "shape": shape,
            "parameters": {"binary_data_size": len(part)},
        }
        for t, shape, part in zip(sent, shapes, parts, strict=True)
    ]
    parameters = {"binary_data_output": True, **position}
    header = json.dumps({"inputs": described, "parameters": parameters}).encode()
    headers = {HEADER_LENGTH: str(len(header)), "Content-Type": "application/octet-stream"}
    path = f"/v2/models/{quote(project.ensemble)}/infer"
    return Message(path, b"".join([header, *parts]), headers)


def _shape(project: Project, tensor: Input) -> list[int]:
    """Return the shape of a request of one row."""
    return [1] * project.batched + list(tensor.dims)


def _sample_shape(project: Project, tensor: Input, value: Any) -> list[int]:
    """Return the shape of a sample's input, which may leave out the last dim if that is 1, or be a lone value."""
    shape, row = _measure_shape(value), _shape(project, tensor)
    return [*(shape or row[:-1]), 1] if len(shape) < len(row) else shape


def _measure_shape(value: Any) -> list[int]:
    if not isinstance(value, list):
        return []
    return [len(value), *(_measure_shape(value[0]) if value else [])]


def _encode(project: Project, tensor: Input, value: Any) -> bytes:
    try:
        return _binary(project, tensor.datatype, list(_flat(value)))
    except Exception as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{tensor.name}: {reason}") from error


def _binary(project: Project, datatype: str, cells: list[Any]) -> bytes:
    if datatype == "BYTES":
        texts = [_bytes(project, cell) for cell in cells]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    if datatype == "BF16":  # the upper half of an FP32
        return b"".join(struct.pack("<f", cell)[2:] for cell in cells)
    return struct.pack(f"<{len(cells)}{FORMATS[datatype]}", *cells)


def _flat(value: Any) -> Iterator[Any]:
    for item in value if isinstance(value, list) else [value]:
        yield from _flat(item) if isinstance(item, list) else [item]


def _bytes(project: Project, cell: str | dict[str, str]) -> bytes:
    """Return the bytes of a text, or of the `base64` or `file` that a sample has in its place."""
    if isinstance(cell, str):
        return cell.encode()
    if "base64" in cell:
        return base64.b64decode(cell["base64"])
    return read_named_file(project.samples, cell["file"])
