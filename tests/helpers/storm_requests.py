"""Requests to the storm's ensemble as they go over HTTP and gRPC, byte by byte: a client of Triton's makes only good ones."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from tritonclient.grpc import service_pb2  # type: ignore[import-untyped]

MODEL = "storm"
HTTP, GRPC = "http", "grpc"
BAD_STRING = "bad length prefix"
REFUSED_TEXT = "refuse me"


class Tensor(NamedTuple):
    """An input: its bytes as Triton takes them, and what the request says of them."""

    name: str
    datatype: str
    shape: list[int]
    data: bytes


class Body(NamedTuple):
    """What is sent. Over HTTP `json_length` are the bytes before the tensors' own; `hang_up`: half of it, then no more."""

    data: bytes
    json_length: int = 0
    hang_up: bool = False
    fields: str = ""  # of the HTTP head, each with its line end


def string(text: bytes) -> bytes:
    """A STRING as Triton takes it: its length in front."""
    return struct.pack("<I", len(text)) + text


class Row(NamedTuple):
    """What the ensemble takes: a text and four numbers."""

    text: str
    numbers: list[int]


def inputs(rows: list[Row]) -> list[Tensor]:
    texts = b"".join(string(row.text.encode()) for row in rows)
    floats = np.array([row.numbers for row in rows], np.float32).tobytes()
    return [
        Tensor("TEXT", "BYTES", [len(rows), 1], texts),
        Tensor("NUMBERS", "FP32", [len(rows), 4], floats),
    ]


def answer(rows: list[Row]) -> bytes:
    """What the ensemble answers to these rows."""
    lines = (f"{row.text.upper()} {sum(row.numbers)}" for row in rows)
    return b"".join(string(line.encode()) for line in lines)


def http_json(tensors: list[Tensor], more_bytes: int = 0) -> bytes:
    declared = [
        {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": tensor.shape,
            "parameters": {"binary_data_size": len(tensor.data) + more_bytes},
        }
        for tensor in tensors
    ]
    outputs = [{"name": "ANSWER", "parameters": {"binary_data": True}}]
    return json.dumps({"inputs": declared, "outputs": outputs}).encode()


def http_body(tensors: list[Tensor], head: bytes = b"") -> Body:
    head = head or http_json(tensors)
    return Body(head + b"".join(tensor.data for tensor in tensors), len(head))


def grpc_message(tensors: list[Tensor]) -> Any:
    message = service_pb2.ModelInferRequest(model_name=MODEL)
    for tensor in tensors:
        message.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        message.raw_input_contents.append(tensor.data)
    return message


def grpc_body(tensors: list[Tensor]) -> Body:
    return Body(grpc_message(tensors).SerializeToString())


BODIES: dict[str, Callable[[list[Tensor]], Body]] = {HTTP: http_body, GRPC: grpc_body}


def text_refused(texts: Tensor) -> Tensor:
    return texts._replace(data=string(REFUSED_TEXT.encode()) * texts.shape[0])


def last_too_long(texts: Tensor) -> Tensor:
    """Triton's core notices nothing: each row has its text, but the last one ends before its length."""
    rows = texts.shape[0]
    return texts._replace(data=string(b"") * (rows - 1) + struct.pack("<I", 0xFFFFFFF0) + b"bad")


def texts(**changed: Any) -> Callable[[list[Tensor]], list[Tensor]]:
    return lambda t: [t[0]._replace(**changed), t[1]]


def numbers(**changed: Any) -> Callable[[list[Tensor]], list[Tensor]]:
    return lambda t: [t[0], t[1]._replace(**changed)]


# What is wrong with the tensors: the same over both protocols. `t`: the text and the numbers.
WRONG_TENSORS: dict[str, Callable[[list[Tensor]], list[Tensor]]] = {
    "wrong data type": numbers(datatype="INT32"),
    "unknown data type": numbers(datatype="FP33"),
    "lower-case data type": numbers(datatype="fp32"),
    "no data type": numbers(datatype=""),
    "numbers as texts": numbers(datatype="BYTES"),
    "texts as numbers": texts(datatype="FP32"),
    "wrong shape": numbers(shape=[1, 5], data=bytes(20)),
    "too few dims": numbers(shape=[4]),
    "too many dims": numbers(shape=[1, 1, 4]),
    "no dims": numbers(shape=[]),
    "a thousand dims": numbers(shape=[1] * 1000),
    "huge shape": numbers(shape=[1 << 31, 4]),
    "negative dims": numbers(shape=[-1, 4]),
    "dim of zero": numbers(shape=[1, 0], data=b""),
    "no rows": lambda t: [tensor._replace(shape=[0, *tensor.shape[1:]], data=b"") for tensor in t],
    "too many rows": lambda t: inputs([Row("", [0] * 4)] * 1000),
    "unlike rows": lambda t: [t[0], inputs([Row("", [0] * 4)] * (t[1].shape[0] + 1))[1]],
    "less data than the shape": lambda t: [t[0], t[1]._replace(data=t[1].data[:-4])],
    "more data than the shape": lambda t: [t[0], t[1]._replace(data=t[1].data + bytes(4))],
    "half a number": lambda t: [t[0], t[1]._replace(data=t[1].data[:-2])],
    "no data": numbers(data=b""),
    "no texts": texts(data=b""),
    "half a length prefix": texts(data=b"\x00"),
    "more texts than rows": lambda t: [t[0]._replace(data=t[0].data + string(b"more")), t[1]],
    "wrong name": numbers(name="NUMBER"),
    "no name": numbers(name=""),
    "name of the output": numbers(name="ANSWER"),
    "long name": numbers(name="N" * 100_000),
    "missing input": lambda t: t[:1],
    "extra input": lambda t: [*t, t[1]._replace(name="MORE")],
    "input twice": lambda t: [*t, t[1]],
    "no inputs": lambda t: [],
    "text that its step refuses": lambda t: [text_refused(t[0]), t[1]],
    BAD_STRING: lambda t: [last_too_long(t[0]), t[1]],
}


def spoilt_json(before: bytes, after: bytes) -> Callable[[list[Tensor]], Body]:
    """Replace a part of the JSON, once."""

    def body(tensors: list[Tensor]) -> Body:
        head = http_json(tensors)
        spoilt = head.replace(before, after, 1)
        assert spoilt != head
        return http_body(tensors, spoilt)

    return body


def spoilt_message(spoil: Callable[[Any], Any]) -> Callable[[list[Tensor]], Body]:
    """Change the message of gRPC in place."""

    def body(tensors: list[Tensor]) -> Body:
        spoil(message := grpc_message(tensors))
        return Body(message.SerializeToString())

    return body


def set_region(message: Any) -> None:
    message.inputs[1].parameters["shared_memory_region"].string_param = "none"
    message.inputs[1].parameters["shared_memory_byte_size"].int64_param = 16


# What is wrong with the bytes that carry them.
WRONG_BYTES: dict[str, dict[str, Callable[[list[Tensor]], Body]]] = {
    HTTP: {
        "bad JSON or protobuf": spoilt_json(b"{", b"["),
        "truncated binary": lambda t: Body(http_body(t).data[:-5], http_body(t).json_length),
        "wrong binary size": lambda t: http_body(t, http_json(t, more_bytes=1)),
        "empty body": lambda t: Body(b""),
        "hang-up": lambda t: http_body(t)._replace(hang_up=True),
        "unknown output": spoilt_json(b"ANSWER", b"NOTHING"),
        "unknown shared memory": spoilt_json(
            b'"binary_data_size"',
            b'"shared_memory_region": "none", "shared_memory_byte_size": 4, "offset"',
        ),
        "JSON null": lambda t: Body(b"null"),
        "JSON of a list": lambda t: Body(b"[]"),
        "inputs of a text": lambda t: Body(b'{"inputs": "TEXT"}'),
        "shape of texts": spoilt_json(b'"shape": [', b'"shape": ["one", '),
        "shape of a number": spoilt_json(b'"shape": [', b'"shape": 1, "dims": ['),
        "fractional dim": spoilt_json(b'"shape": [', b'"shape": [1.5, '),
        "negative binary size": spoilt_json(b'"binary_data_size": ', b'"binary_data_size": -'),
        "data beside binary data": spoilt_json(b'"shape"', b'"data": [1, 2], "shape"'),
        "JSON nested 1,000 deep": spoilt_json(b"{", b'{"id": ' + b"[" * 1000),
        "JSON with invalid UTF-8": spoilt_json(b"NUMBERS", b"\xff\xfe"),
        "JSON longer than the body": lambda t: http_body(t)._replace(json_length=1 << 30),
        "no gzip": lambda t: http_body(t)._replace(fields="Content-Encoding: gzip\r\n"),
    },
    GRPC: {
        "bad JSON or protobuf": lambda t: Body(b"\xff" * 20),
        "truncated binary": spoilt_message(lambda m: m.raw_input_contents.pop()),
        "wrong binary size": spoilt_message(
            lambda m: m.raw_input_contents.append(m.raw_input_contents.pop() + b"!")
        ),
        "empty body": lambda t: Body(b""),
        "unknown output": spoilt_message(lambda m: m.outputs.add(name="NOTHING")),
        "unknown shared memory": spoilt_message(set_region),
        "unknown model": spoilt_message(lambda m: setattr(m, "model_name", "none")),
        "unknown version": spoilt_message(lambda m: setattr(m, "model_version", "99")),
        "non-numeric version": spoilt_message(lambda m: setattr(m, "model_version", "-")),
        "raw and typed data": spoilt_message(
            lambda m: m.inputs[1].contents.fp32_contents.append(1)
        ),
    },
}
KINDS = [*WRONG_TENSORS, *(WRONG_BYTES[HTTP] | WRONG_BYTES[GRPC])]


def malformed(kind: str, protocol: str, tensors: list[Tensor]) -> Body | None:
    """A request of a kind of `KINDS`; None where the protocol has none."""
    if wrong := WRONG_TENSORS.get(kind):
        return BODIES[protocol](wrong(tensors))
    spoil = WRONG_BYTES[protocol].get(kind)
    return spoil(tensors) if spoil else None
