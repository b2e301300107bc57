"""Is the ensemble able to answer? Sends it one request over HTTP: exit code 0 if it answers, else 1.

    python tools/ready.py --url http://127.0.0.1:8000 --metrics http://127.0.0.1:8002/metrics

A server before release 26.04 may say that it is ready after a model's Python process has died. The
request is the first of samples/, which it must answer; or zeros{{ ', as JSON' if graph.decoupled }}: then a refusal is an answer too.
A server that is too busy to answer in time is able to, if its metrics count answers to others meanwhile.
Needs nothing but Python, and samples/ beside its folder.
"""

from __future__ import annotations

import argparse
import base64
import json
{% if graph.sequential and not graph.decoupled %}
import random
{% endif %}
{% if not graph.decoupled %}
import struct
{% endif %}
import sys
from collections.abc import Iterator
from contextlib import suppress
from http.client import BadStatusLine, RemoteDisconnected
{% if not graph.decoupled %}
from math import prod
{% endif %}
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

MODEL = {{ ensemble_name | to_json }}
# Inputs: the data type, and the shape of a request of zeros.
INPUTS: dict[str, tuple[str, list[int]]] = {
{% for tensor in graph.inputs %}
    {{ tensor.name | to_json(ensure_ascii=false) }}: ("{{ tensor.wire }}", [{{ (([1] if max_batch_size else []) + graph.sample_dims[tensor.name]) | join(', ') }}]),
{% endfor %}
}
OUTPUTS = [
{% for tensor in graph.outputs %}
    {{ tensor.name | to_json(ensure_ascii=false) }},
{% endfor %}
]
SAMPLES = Path(__file__).parent.parent / "samples"
DIRECT = build_opener(ProxyHandler({}))  # whatever http_proxy says
{% if not graph.decoupled %}
LENGTH = "Inference-Header-Content-Length"
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
SIZES = {type_: struct.calcsize(f"<{letter}") for type_, letter in FORMATS.items()} | {"BF16": 2}
{% endif %}


def samples() -> list[Path]:
    return sorted(SAMPLES.glob("*.json"))


def sample() -> dict[str, Any]:
    """The inputs of the first sample, by name, as nested lists; nothing if there is none."""
    for path in samples():
        found = json.loads(path.read_text())
        if not isinstance(found, dict) or not isinstance(found.get("inputs"), dict):
            raise ValueError('it has no "inputs"; write {"inputs": {NAME: [...]}}')
        return dict(found["inputs"])
    return {}


def request() -> tuple[str, bytes, dict[str, str]]:
    """Path, body and headers of the request; ValueError for a sample that is none."""
    try:
        return body(sample())
    except Exception as error:  # whatever it is, the file can't be sent
        raise ValueError(f"{samples()[0]}: is no sample request: {error}") from error


{% if graph.decoupled %}
def zeros() -> dict[str, Any]:
    return {name: blank(type_, shape) for name, (type_, shape) in INPUTS.items()}


def blank(type_: str, shape: list[int]) -> Any:
    if shape:
        return [blank(type_, shape[1:])] * shape[0]
    return "" if type_ == "BYTES" else False if type_ == "BOOL" else 0


{% else %}
def shape_of(value: Any) -> list[int]:
    if not isinstance(value, list):
        return []
    return [len(value), *(shape_of(value[0]) if value else [])]


def shape(name: str, value: Any) -> list[int]:
    """That of an input; a sample may leave out the last of its dims, if that is 1."""
    found, wanted = shape_of(value), INPUTS[name][1]
    return [*found, 1] if len(found) < len(wanted) else found


{% endif %}
def flat(value: Any) -> Iterator[Any]:
    for item in value if isinstance(value, list) else [value]:
        yield from flat(item) if isinstance(item, list) else [item]


def content(cell: str | dict[str, str]) -> bytes:
    """A text, or what stands for the bytes of one: see tools/samples.py."""
    if isinstance(cell, str):
        return cell.encode()
    if "base64" in cell:
        return base64.b64decode(cell["base64"])
    return (SAMPLES / cell["file"]).read_bytes()
{% if graph.decoupled %}


def body(inputs: dict[str, Any]) -> tuple[str, bytes, dict[str, str]]:
    """Path, body and headers of a request that a decoupled model may answer over HTTP."""
    given = (inputs or zeros()).items()
    values = {name: [plain(cell) for cell in flat(value)] for name, value in given}
    headers = {"Content-Type": "application/json"}
    return f"/v2/models/{quote(MODEL)}/generate_stream", json.dumps(values).encode(), headers


def plain(cell: Any) -> Any:
    return content(cell).decode() if isinstance(cell, dict) else cell


def outputs_of(response: Any) -> set[str]:
    """The outputs of the first answer of a stream, which may go on for long; ValueError for an error."""
    for line in response:
        if line.startswith(b"data: "):
            one: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
            if "error" in one:
                raise ValueError(one["error"])
            return {*one}
    return {*OUTPUTS}  # it may give none
{% else %}


def encoded(name: str, value: Any) -> bytes:
    try:
        return binary(INPUTS[name][0], value)
    except Exception as error:
        told = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{name}: {told}") from error


def binary(type_: str, value: Any) -> bytes:
    cells = list(flat(value))
    if type_ == "BYTES":
        texts = [content(cell) for cell in cells]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    if type_ == "BF16":  # the upper half of an FP32
        return b"".join(struct.pack("<f", cell)[2:] for cell in cells)
    return struct.pack(f"<{len(cells)}{FORMATS[type_]}", *cells)


def body(inputs: dict[str, Any]) -> tuple[str, bytes, dict[str, str]]:
    """Path, body and headers of a request."""
    parts, shapes = {}, {}
    for name, (type_, given) in INPUTS.items():
        if not inputs:
            parts[name], shapes[name] = bytes(SIZES.get(type_, 4) * prod(given)), given
        elif name in inputs:
            parts[name], shapes[name] = encoded(name, inputs[name]), shape(name, inputs[name])
    tensors = [
        {
            "name": name,
            "datatype": INPUTS[name][0],
            "shape": shapes[name],
            "parameters": {"binary_data_size": len(part)},
        }
        for name, part in parts.items()
    ]
{% if graph.sequential %}
    parameters = {
        "binary_data_output": True,
        "sequence_id": random.randrange(1, 2**63),
        "sequence_start": True,
        "sequence_end": True,
    }
{% else %}
    parameters = {"binary_data_output": True}
{% endif %}
    head = json.dumps({"inputs": tensors, "parameters": parameters}).encode()
    headers = {LENGTH: str(len(head)), "Content-Type": "application/octet-stream"}
    return f"/v2/models/{quote(MODEL)}/infer", b"".join([head, *parts.values()]), headers


def outputs_of(response: Any) -> set[str]:
    answer, length = response.read(), response.headers.get(LENGTH)
    head = json.loads(answer[: int(length)] if length else answer)
    return {output["name"] for output in head["outputs"]}
{% endif %}


def problem(asked: Request, timeout_s: float) -> str | None:
    """Why the ensemble does not answer, in a line; TimeoutError if not in time."""
    try:
        with DIRECT.open(asked, timeout=timeout_s) as response:
            found = outputs_of(response)
    except HTTPError as error:
        if error.code == 400 and not samples():
            return None
        return f"status {error.code}: {one_line(error.read(500).decode(errors='replace'))}"
    except TimeoutError:
        raise
    except RemoteDisconnected:
        return "the connection was closed"
    except BadStatusLine:
        return f"{asked.host} speaks no HTTP; is that the gRPC port?"
    except Exception as error:  # whatever it is, there is no answer
        return f"{type(error).__name__}: {one_line(str(error))}"
    missing = [name for name in OUTPUTS if name not in found]
    return f"its answer lacks {', '.join(missing)}" if missing else None


def one_line(text: str) -> str:
    return " ".join(text.split())


def answered(metrics: str) -> float:
    """The requests that the ensemble has answered so far; 0 without metrics, or where they can't be read."""
    if not metrics:
        return 0
    try:
        with DIRECT.open(metrics, timeout=2) as response:
            lines = response.read().decode().splitlines()
    except OSError:
        return 0
    own = [line for line in lines if f'model="{MODEL}",' in line]
    counts = [line for line in own if line.startswith("nv_inference_request_success{")]
    return sum(float(line.rpartition(" ")[2]) for line in counts)


def answered_before(metrics: str, since: Path | None) -> float:
    """The requests that the ensemble had answered at the last check, whose number `since` keeps; else so far."""
    now = before = answered(metrics)
    if since:
        with suppress(OSError, ValueError):  # the first check; a full disk
            before = float(since.read_text())
        with suppress(OSError):
            since.write_text(str(now))
    return before


def main() -> int:
    parser = argparse.ArgumentParser(description="Exit code 0 if the ensemble answers, else 1.")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="of Triton's HTTP port")
    parser.add_argument("--timeout", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--metrics", default="", metavar="URL", help="of Triton's metrics")
    kept = "keeps the answers that they counted at the last check"
    parser.add_argument("--since", type=Path, metavar="FILE", help=kept)
    told = "sent along, for a server whose inference API is restricted"
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help=told)
    arguments = parser.parse_args()
    headers = dict(text.partition("=")[::2] for text in arguments.header)
    if not arguments.url.startswith(("http://", "https://")):
        print(f"--url {arguments.url} is no HTTP address; write http://host:port")
        return 1
    try:
        path, data, own = request()
    except ValueError as error:
        print(one_line(str(error)))
        return 1
    before = answered_before(arguments.metrics, arguments.since)
    try:
        asked = Request(arguments.url.rstrip("/") + path, data, headers | own)
        found = problem(asked, arguments.timeout)
    except TimeoutError:
        if answered(arguments.metrics) > before:
            print(f"{MODEL} is busy, and answers others")
            return 0
        found = f"not in {arguments.timeout:g} s"
    print(f"{MODEL} answers" if found is None else f"{MODEL} does not answer: {found}")
    return 0 if found is None else 1


if __name__ == "__main__":
    sys.exit(main())
