"""Random requests to Triton, over HTTP and gRPC: good ones, of which a few places are changed."""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
import random
from typing import Any, NamedTuple
from urllib.parse import quote

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2  # type: ignore[import-untyped]

# What is known to end the server or to take its memory, as docs/security.md says: this word, and shapes so large.
KNOWN, LARGEST = b"classification", 1 << 20
TYPES = ["BOOL", "UINT8", "INT16", "UINT32", "INT64", "FP16", "FP32", "FP64", "STRING"]
MODELS = {  # and what each adds to its config
    "plain": "",
    "rows": "max_batch_size: 4 dynamic_batching { }",
    "stream": "model_transaction_policy { decoupled: true }",
    "turns": """max_batch_size: 4 sequence_batching { oldest { max_candidate_sequences: 4 }
        control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] } }
        control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } } }""",
    "cached": "max_batch_size: 4 response_cache { enable: true }",
}
WORDS = [
    "", "a", "é\x00", "x" * 5000, "I_FP32", "O_STRING", "FP32", "BYTES", "BF16", "../plain", "-1", "99999999999999999999", "1", *MODELS,
]  # fmt: skip
NUMBERS = [
    0,
    1,
    -1,
    2,
    4,
    7,
    255,
    1 << 31,
    1 << 32,
    (1 << 63) - 1,
    -(1 << 63),
    (1 << 64) - 1,
    1 << 70,
    0.5,
    1e308,
    -1e-308,
]
VALUES: list[Any] = [
    *WORDS,
    *NUMBERS,
    None,
    True,
    False,
    [],
    {},
    [[]],
    [1, 2],
    [[1], "a"],
    {"a": 1},
]
KEYS = ["id", "inputs", "outputs", "parameters", "name", "shape", "datatype", "data", "binary_data_size", "binary_data", "binary_data_output", "shared_memory_region", "shared_memory_byte_size", "shared_memory_offset", "sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "triton_enable_empty_final_response", "triton_grpc_error", "triton_final_response", "text_input", "I_STRING", "I_FP32", "stream", "ready", "trace_level", "trace_rate", "log_verbose_level", "log_format", "key", "offset", "byte_size", "raw_handle", "b64", "device_id", "unload_dependents", "config", "file:1/model.py"]  # fmt: skip


class Request(NamedTuple):
    """For HTTP `where` is the method and the path; for gRPC the method, and `bodies` are the messages of a stream."""

    where: str
    fields: tuple[tuple[str, str], ...]
    bodies: tuple[bytes, ...]


def good_tensor(model: str, kind: str) -> dict[str, Any]:
    dims = [2] if MODELS[model][:3] != "max" else [1, 2]
    data = {"STRING": ["a", "é"], "BOOL": [True, False]}.get(kind, [1, 2])
    datatype = "BYTES" if kind == "STRING" else kind
    return {"name": f"I_{kind}", "datatype": datatype, "shape": dims, "data": data}


def good_json(chance: random.Random, model: str) -> dict[str, Any]:
    kinds = chance.sample([kind for kind in TYPES if kind != "FP16"], chance.randint(1, 3))
    tensors = [good_tensor(model, kind) for kind in kinds]
    parameters = {"sequence_id": 7, "sequence_start": True, "sequence_end": True}
    body: dict[str, Any] = {"inputs": tensors, "parameters": parameters if model == "turns" else {}}
    if chance.random() < 0.4:
        binary = {"binary_data": chance.random() < 0.5}
        body["outputs"] = [{"name": "O" + t["name"][1:], "parameters": binary} for t in tensors]
    return body


def spoil(chance: random.Random, value: Any) -> Any:
    """Change one place of a JSON value."""
    if isinstance(value, dict) and value and chance.random() < 0.95:
        key = chance.choice(sorted(value))
        change = chance.choice(["deep"] * 6 + ["drop", "add", "rename"])
        if change == "add":
            return value | {chance.choice(KEYS): chance.choice(VALUES)}
        rest = {name: each for name, each in value.items() if name != key}
        if change == "drop":
            return rest
        if change == "rename":
            return rest | {chance.choice(KEYS): value[key]}
        return value | {key: spoil(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.95:
        at, value = chance.randrange(len(value)), list(value)
        change = chance.choice(["deep"] * 6 + ["drop", "twice", "many"])
        count = {"drop": 0, "twice": 2, "many": 300}.get(change, 1)
        value[at : at + 1] = [spoil(chance, value[at]) if count == 1 else value[at]] * count
        return value
    return copy.deepcopy(chance.choice(VALUES))


def spoil_bytes(chance: random.Random, data: bytes) -> bytes:
    at, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    change = chance.choice(["flip", "cut", "end", "twice", "insert"])
    if change == "flip" and at < len(data):
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    new = {"cut": b"", "twice": data[at:end] * 2, "insert": chance.randbytes(chance.randint(1, 9))}
    return data[:at] if change == "end" else data[:at] + new.get(change, b"") + data[end:]


def is_large(value: Any, in_shape: bool = False) -> bool:
    """Whether a shape of a JSON value is one that is known to take the memory, or to overflow."""
    if isinstance(value, dict):
        return any(is_large(each, in_shape or key == "shape") for key, each in value.items())
    if isinstance(value, list):
        size: float = 1
        for each in value:
            size *= max(abs(each), 1) if isinstance(each, (int, float)) else 1
        return (in_shape and size > LARGEST) or any(is_large(each, in_shape) for each in value)
    return in_shape and isinstance(value, (int, float)) and abs(value) > LARGEST


PATHS = [*["models/{}/infer"] * 12, "models/{}/versions/1/infer", *["models/{}/generate", "models/{}/generate_stream"] * 2, "models/{}/config", "models/{}/stats",
    "models/{}/ready", "models/{}/trace/setting", "models/stats", "repository/index", "repository/models/{}/load", "repository/models/{}/unload", "logging",
    "trace/setting", "systemsharedmemory/status", "systemsharedmemory/region/a/register", "systemsharedmemory/unregister", "cudasharedmemory/region/a/register",
    "health/ready", "", "models/{}"]  # fmt: skip


def http_request(chance: random.Random) -> Request:
    model, path = chance.choice([*MODELS]), chance.choice(PATHS)
    value: Any = good_json(chance, model)
    if model == "stream" and "infer" in path and chance.random() < 0.9:
        return http_request(chance)
    if "generate" in path:
        value = {"I_STRING": "a", "I_FP32": 1.5, "parameters": {}}
    elif "infer" not in path:
        value = {chance.choice(KEYS): chance.choice(VALUES) for _ in range(3)}
    tail = b""
    if "infer" in path and chance.random() < 0.4 and "data" in value["inputs"][0]:
        tail = chance.randbytes(chance.choice([2, 4, 8, 16]))
        del value["inputs"][0]["data"]
        value["inputs"][0]["parameters"] = {"binary_data_size": len(tail)}
    for _ in range(chance.choice([0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 5])):
        value = spoil(chance, value)
    if is_large(value):
        return http_request(chance)
    head = json.dumps(value, ensure_ascii=chance.random() < 0.9).encode("utf-8", "surrogatepass")
    body, fields = head + tail, {}
    if tail or chance.random() < 0.1:
        length = chance.choice([len(head)] * 8 + NUMBERS)
        fields["Inference-Header-Content-Length"] = str(length)
    if chance.random() < 0.2:
        body = spoil_bytes(chance, body)
    if chance.random() < 0.1:
        fields["Content-Encoding"] = chance.choice(
            ["gzip", "gzip", "deflate", "br", "gzip, gzip", ""]
        )
        body = gzip.compress(body)
        body = spoil_bytes(chance, body) if chance.random() < 0.5 else body
    if chance.random() < 0.1:
        fields["Accept-Encoding"] = chance.choice(
            ["gzip", "deflate", "br", "*;q=0", "gzip, deflate"]
        )
    if chance.random() < 0.05:
        fields[
            chance.choice(
                ["Content-Type", "Expect", "triton-x", "Host", "traceparent", "Connection"]
            )
        ] = chance.choice(
            ["", "100-continue", "a" * 3000, "application/json; charset=x", "\xff", "close"]
        )
    if chance.random() < 0.07:
        size = chance.choice([1, 3, 1000])
        chunks = [body[i : i + size] for i in range(0, len(body), size)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
        body = spoil_bytes(chance, body) if chance.random() < 0.3 else body
        fields["Transfer-Encoding"] = "chunked"
    if "Transfer-Encoding" not in fields or chance.random() < 0.1:
        fields["Content-Length"] = str(chance.choice([len(body)] * 250 + NUMBERS))
    usual = (
        "POST"
        if any(word in path for word in ("infer", "generate", "load", "register", "index"))
        else "GET"
    )
    method = chance.choice(
        [usual] * 200 + ["POST", "GET", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "X"]
    )
    where = "/v2/" + path.replace("{}", quote(chance.choice([model] * 99 + WORDS)))
    where += chance.choice([""] * 99 + ["/", "?a=b", "%00", "//", "#"])
    return Request(f"{method} {where}", tuple(fields.items()), (body,))


METHODS = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
OFTEN = ["ModelInfer"] * 12 + ["ModelStreamInfer"] * 8


def good_message(chance: random.Random, name: str, model: str) -> Any:
    message = GetMessageClass(METHODS[name].input_type)()
    if name in OFTEN:
        body = good_json(chance, model)
        message.model_name = model
        is_raw = chance.random() < 0.4
        for tensor in body["inputs"]:
            kind = tensor["datatype"]
            added = message.inputs.add(name=tensor["name"], datatype=kind, shape=tensor["shape"])
            if is_raw:
                message.raw_input_contents.append(chance.randbytes(chance.choice([2, 4, 8, 16])))
            elif kind == "BYTES":
                added.contents.bytes_contents.extend([b"a", b""])
            else:
                kind = {"UINT8": "UINT", "INT16": "INT", "UINT32": "UINT"}.get(kind, kind)
                getattr(
                    added.contents, f"{kind.lower()}_contents".replace("int32_", "int_")
                ).extend(tensor["data"])
        for key, given in body["parameters"].items():
            is_bool = isinstance(given, bool)
            setattr(message.parameters[key], "bool_param" if is_bool else "int64_param", given)
    return message


def spoil_message(chance: random.Random, message: Any) -> None:
    """Change one place of a message, of a kind that its field may have."""
    if not message.DESCRIPTOR.fields:
        return
    field = chance.choice(message.DESCRIPTOR.fields)
    value = getattr(message, field.name)
    is_map = bool(field.message_type) and field.message_type.GetOptions().map_entry
    with contextlib.suppress(TypeError, ValueError, AttributeError):
        if is_map:
            entry = value[chance.choice(KEYS)]
            spoil_message(chance, entry)
        elif field.type == field.TYPE_MESSAGE:
            if not field.is_repeated:
                spoil_message(chance, value)
            elif value and chance.random() < 0.7:
                spoil_message(chance, chance.choice(value))
            else:
                spoil_message(chance, value.add())
        elif field.is_repeated:
            if value and chance.random() < 0.3:
                del value[chance.randrange(len(value))]
            else:
                value.append(scalar(chance, field))
        else:
            setattr(message, field.name, scalar(chance, field))


def scalar(chance: random.Random, field: Any) -> Any:
    if field.type == field.TYPE_STRING:
        return chance.choice(WORDS)
    if field.type == field.TYPE_BYTES:
        return chance.randbytes(chance.choice([0, 1, 4, 8, 100]))
    return chance.choice([True, False] if field.type == field.TYPE_BOOL else NUMBERS)


def grpc_request(chance: random.Random) -> Request:
    name = chance.choice([*OFTEN, *METHODS])
    bodies = []
    model, is_stream = chance.choice([*MODELS]), name == "ModelStreamInfer"
    for _ in range(chance.randint(1, 4) if is_stream else 1):
        message = good_message(chance, name, model if is_stream else chance.choice([*MODELS]))
        for _ in range(chance.choice([0, 0, 1, 1, 2, 2, 3, 6])):
            spoil_message(chance, message)
        data = message.SerializeToString()
        bodies.append(spoil_bytes(chance, data) if chance.random() < 0.1 else data)
    return Request(name, (), tuple(bodies))


def is_known(request: Request) -> bool:
    """Whether it is known to end the server: also a stream that asks a decoupled model and others too."""
    kinds = set[bool]()
    for body in request.bodies if request.where == "ModelStreamInfer" else ():
        with contextlib.suppress(DecodeError):
            message = service_pb2.ModelInferRequest.FromString(body)
            kinds.add(message.model_name == "stream" and message.model_version in ("", "1"))
    return len(kinds) > 1 or KNOWN in b"".join(request.bodies)
