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


def http_body(tensors: list[Tensor]) -> Body:
    head = http_json(tensors)
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
    """Of which Triton's core notices nothing: each row has its text, but the last one ends before its length."""
    rows = texts.shape[0]
    return texts._replace(data=string(b"") * (rows - 1) + struct.pack("<I", 0xFFFFFFF0) + b"bad")


# What is wrong with the tensors: the same over both protocols. `t`: the text and the numbers.
WRONG_TENSORS: dict[str, Callable[[list[Tensor]], list[Tensor]]] = {
    "wrong data type": lambda t: [t[0], t[1]._replace(datatype="INT32")],
    "wrong shape": lambda t: [t[0], t[1]._replace(shape=[1, 5], data=bytes(20))],
    "wrong name": lambda t: [t[0], t[1]._replace(name="NUMBER")],
    "missing input": lambda t: t[:1],
    "extra input": lambda t: [*t, t[1]._replace(name="MORE")],
    "huge shape": lambda t: [t[0], t[1]._replace(shape=[1 << 31, 4])],
    "negative dims": lambda t: [t[0], t[1]._replace(shape=[-1, 4])],
    "no rows": lambda t: [tensor._replace(shape=[0, *tensor.shape[1:]], data=b"") for tensor in t],
    "text that its step refuses": lambda t: [text_refused(t[0]), t[1]],
    BAD_STRING: lambda t: [last_too_long(t[0]), t[1]],
}


def spoilt_json(tensors: list[Tensor]) -> Body:
    data, length, _ = http_body(tensors)
    return Body(data.replace(b"{", b"[", 1), length)


def more_declared(tensors: list[Tensor]) -> Body:
    head = http_json(tensors, more_bytes=1)
    return Body(head + b"".join(tensor.data for tensor in tensors), len(head))


def without_last_tensor(tensors: list[Tensor]) -> Body:
    message = grpc_message(tensors)
    message.raw_input_contents.pop()
    return Body(message.SerializeToString())


def one_byte_more(tensors: list[Tensor]) -> Body:
    message = grpc_message(tensors)
    message.raw_input_contents[1] += b"!"
    return Body(message.SerializeToString())


# What is wrong with the bytes that carry them.
WRONG_BYTES: dict[str, dict[str, Callable[[list[Tensor]], Body]]] = {
    HTTP: {
        "bad JSON or protobuf": spoilt_json,
        "truncated binary": lambda t: Body(http_body(t).data[:-5], http_body(t).json_length),
        "wrong binary size": more_declared,
        "empty body": lambda t: Body(b""),
        "hang-up": lambda t: http_body(t)._replace(hang_up=True),
    },
    GRPC: {
        "bad JSON or protobuf": lambda t: Body(b"\xff" * 20),
        "truncated binary": without_last_tensor,
        "wrong binary size": one_byte_more,
        "empty body": lambda t: Body(b""),
    },
}
KINDS = [*WRONG_TENSORS, *WRONG_BYTES[HTTP]]


def malformed(kind: str, protocol: str, tensors: list[Tensor]) -> Body | None:
    """A request of a kind of `KINDS`; None where the protocol has none."""
    if wrong := WRONG_TENSORS.get(kind):
        return BODIES[protocol](wrong(tensors))
    spoil = WRONG_BYTES[protocol].get(kind)
    return spoil(tensors) if spoil else None
