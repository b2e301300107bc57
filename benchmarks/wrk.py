"""A load that leaves the cores to the server, by `wrk`: `apt-get install wrk`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.request import Request as UrlRequest
from urllib.request import urlopen

import numpy as np
import tritonclient.http as triton_http  # type: ignore[import-untyped]
from numpy.typing import NDArray

SCRIPT = Path(__file__).with_name("requests.lua")


class Request(NamedTuple):
    """What is posted to a path; Host and Content-Length are added."""

    path: str
    body: bytes
    headers: Mapping[str, str]

    def raw(self) -> bytes:
        """Return it as it goes over the line."""
        headers = {"Host": "x", "Content-Length": len(self.body), **self.headers}
        lines = [
            f"POST {self.path} HTTP/1.1",
            *(f"{name}: {text}" for name, text in headers.items()),
        ]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


def http_request(
    model: str, tensor: str, rows: NDArray[np.generic], outputs: Sequence[str]
) -> Request:
    """Return the request of rows for an inference, its tensors as bytes."""
    kinds = {"float32": "FP32", "uint8": "UINT8", "object": "BYTES"}
    given = triton_http.InferInput(tensor, list(rows.shape), kinds[str(rows.dtype)])
    given.set_data_from_numpy(rows)
    wanted = [triton_http.InferRequestedOutput(name, binary_data=True) for name in outputs]
    client = triton_http.InferenceServerClient
    body, json_length = client.generate_request_body([given], outputs=wanted)
    headers = {"Inference-Header-Content-Length": str(json_length)}
    return Request(f"/v2/models/{model}/infer", bytes(body), headers)


def ask(url: str, request: Request, output: str) -> NDArray[Any]:
    """Return the numbers or texts of an output of one answer."""
    with urlopen(UrlRequest(url + request.path, request.body, dict(request.headers))) as response:
        length = int(response.headers["Inference-Header-Content-Length"])
        parse = triton_http.InferenceServerClient.parse_response_body
        answer = parse(response.read(), header_length=length)
    return np.ravel(answer.as_numpy(output))


def off(answer: NDArray[Any], expected: NDArray[Any]) -> float:
    """Return how far an answer is, as a part of its largest number; 1 if bytes differ."""
    if expected.dtype == object:
        return float((answer != expected).any())
    return float(np.abs(answer - expected).max() / np.abs(expected).max())


class Rate(NamedTuple):
    """Answers a second, and how long the middle and the slowest of a hundred took."""

    throughput: float
    p50_ms: float
    p99_ms: float


class Wrk:
    """Posts requests to a server, one after the other on each connection."""

    def __init__(self, url: str, *requests: Request) -> None:
        self._folder = TemporaryDirectory()
        files = [Path(self._folder.name, str(i)) for i in range(len(requests))]
        for file, request in zip(files, requests, strict=True):
            file.write_bytes(request.raw())
        self._command = ["wrk", "-t1", "--timeout=30s", "-s", str(SCRIPT), url]
        self._files = ["--", *map(str, files)]

    def rate(self, concurrency: int, seconds: int) -> Rate:
        """Return the answers a second and how long they took, or raise RuntimeError if a request fails."""
        options = [f"-c{concurrency}", f"-d{seconds}s"]
        output = subprocess.check_output([*self._command, *options, *self._files], text=True)
        answers, failed, p50, p99 = map(int, output.split()[-4:])
        if failed:
            raise RuntimeError(f"{failed} of {answers} requests failed:\n{output}")
        if not answers:
            raise RuntimeError(f"no answer in {seconds} s, {concurrency} asked at once")
        return Rate(answers / seconds, p50 / 1000, p99 / 1000)
