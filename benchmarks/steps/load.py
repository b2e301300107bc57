"""A closed loop of HTTP requests, light enough to leave the cores to the server."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import tritonclient.http as triton_http  # type: ignore[import-untyped]
from numpy.typing import NDArray

from benchmarks.processes import cpu_seconds
from benchmarks.wrk import Request


class Load:
    """Sends the same request over `concurrency` connections, each anew as soon as it is answered."""

    def __init__(self, url: str, request: bytes) -> None:
        self.address = (urlsplit(url).hostname or "", urlsplit(url).port or 0)
        self._request = request
        with socket.create_connection(self.address) as connection:
            connection.sendall(self._request)
            self._length = response_length(connection)

    def throughput(self, concurrency: int, seconds: float) -> float:
        """Answers a second."""
        with selectors.DefaultSelector() as selector:
            for _ in range(concurrency):
                connection = socket.create_connection(self.address)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # What is still to come of the answer: all of them have the same length.
                selector.register(connection, selectors.EVENT_READ, [self._length])
                connection.sendall(self._request)
            try:
                return self._answers(selector, seconds) / seconds
            finally:
                for key in list(selector.get_map().values()):
                    key.fileobj.close()  # type: ignore[union-attr]

    def _answers(self, selector: selectors.BaseSelector, seconds: float) -> int:
        buffer, answers = bytearray(1 << 20), 0
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for key, _ in selector.select(0.1):
                connection, missing = key.fileobj, key.data
                missing[0] -= connection.recv_into(buffer)  # type: ignore[union-attr]
                if missing[0] == 0:
                    answers += 1
                    missing[0] = self._length
                    connection.sendall(self._request)  # type: ignore[union-attr]
        return answers


class ModelLoad(Load):
    """For a Python model of one process."""

    def __init__(self, url: str, model: str, tensor: str, rows: NDArray[np.generic]) -> None:
        super().__init__(url, http_request(model, tensor, rows, ["OUT"]).raw())
        self._process = process_of(model)

    def measure(self, concurrency: int, seconds: float) -> tuple[float, float]:
        """Answers a second, and the processor time of the model's process for an answer (us)."""
        before = cpu_seconds(self._process)
        throughput = self.throughput(concurrency, seconds)
        used = cpu_seconds(self._process) - before
        return throughput, 1e6 * used / max(1.0, throughput * seconds)


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


def response_length(connection: socket.socket) -> int:
    """Bytes of one response, head and body; RuntimeError if it is no answer."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    if b" 200 " not in head:
        raise RuntimeError(received.decode(errors="replace"))
    length = int(head.lower().partition(b"\r\ncontent-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return len(head) + 4 + length


def process_of(model: str) -> Path:
    """/proc/PID of the process in which Triton runs a Python model."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes().decode(errors="replace")
            if "triton_python_backend_stub" in command and f"/{model}/1/" in command:
                return process
    raise RuntimeError(f"no process serves {model}")
