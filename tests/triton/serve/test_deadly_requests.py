"""Requests that end the local Triton, as docs/security.md lists them."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grpc import RpcError, insecure_channel  # type: ignore[import-untyped]
from step_code import step_code
from support import Generate, step, succeed
from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.process import ServerError

SAME = step_code("""
def __call__(self, A, N):
    return {"B": A, "M": N}
""")
TWICE = step_code("""
def __call__(self, A):
    yield {"B": A}
    yield {"B": A}
""")
TEXT = {"name": "A", "datatype": "BYTES", "shape": [1, 1], "data": ["a"]}
NUMBERS: dict[str, Any] = {"name": "N", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}
CLASSES = {"name": "B", "parameters": {"classification": 3}}
BODIES = {
    "classification": json.dumps({"inputs": [TEXT, NUMBERS], "outputs": [CLASSES]}),
    "overflow": json.dumps({"inputs": [TEXT, NUMBERS | {"shape": [1, 1 << 62]}]}),
    "nested": '{"inputs": ' + "[" * 200_000 + "]" * 200_000 + "}",
}


@pytest.fixture(scope="module")
def repository(generate: Generate) -> Path:
    project = generate(
        project_name="deadly",
        max_batch_size=2,
        tensors={"A": "STRING[1]", "N": "FP32[-1]", "B": "STRING[1]", "M": "FP32[-1]"},
        steps=[step("same", ["A", "N"], ["B", "M"])],
    )
    (project / "steps/same.py").write_text(SAME)
    succeed(project.make("repository"))
    return project / "model_repository"


@contextlib.contextmanager
def ending(repository: Path) -> Iterator[LocalTriton]:
    """Serve for a `with` block. Fail unless its request ends the server."""
    with contextlib.suppress(ServerError), LocalTriton(repository, "deadly") as triton:
        yield triton
        end = time.monotonic() + 10
        while is_listening(triton):
            assert time.monotonic() < end, "the server is alive"
            time.sleep(0.05)


def is_listening(triton: LocalTriton) -> bool:
    host, _, port = triton.http_url.rpartition("/")[2].partition(":")
    with socket.socket() as connection:
        return connection.connect_ex((host, int(port))) == 0


def send(triton: LocalTriton, body: str) -> int:
    connection = HTTPConnection(triton.http_url.rpartition("/")[2], timeout=20)
    with contextlib.closing(connection):
        connection.request("POST", "/v2/models/deadly/infer", body)
        return connection.getresponse().status


@pytest.mark.parametrize("name", BODIES)
def test_a_request_over_http_ends_the_local_triton(repository: Path, name: str) -> None:
    with ending(repository) as triton, contextlib.suppress(OSError, HTTPException):
        send(triton, BODIES[name])


def test_a_request_over_grpc_ends_the_local_triton(repository: Path) -> None:
    text, numbers = grpc.InferInput("A", [1, 1], "BYTES"), grpc.InferInput("N", [1, 2], "FP32")
    text.set_data_from_numpy(np.array([[b"a"]], object))
    numbers.set_data_from_numpy(np.ones((1, 2), np.float32))
    outputs = [grpc.InferRequestedOutput("B", class_count=3)]
    with (
        ending(repository) as triton,
        grpc.InferenceServerClient(triton.grpc_url.rpartition("/")[2]) as client,
        pytest.raises(InferenceServerException),
    ):
        client.infer("deadly", [text, numbers], outputs=outputs, client_timeout=20)


@pytest.fixture(scope="module")
def decoupled(generate: Generate) -> Path:
    project = generate(
        project_name="deadly",
        tensors={"A": "FP32[1]", "B": "FP32[1]"},
        steps=[step("twice", ["A"], ["B"], decoupled=True)],
    )
    (project / "steps/twice.py").write_text(TWICE)
    succeed(project.make("repository"))
    return project / "model_repository"


def request_for(model: str) -> Any:
    message = service_pb2.ModelInferRequest(model_name=model)
    message.inputs.add(name="A", datatype="FP32", shape=[1, 1])
    message.raw_input_contents.append(bytes(4))
    return message


def stream(triton: LocalTriton, models: list[str], *, is_cancelled: bool) -> None:
    with insecure_channel(triton.grpc_url.rpartition("/")[2]) as channel:
        infer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer
        for _ in range(60_000):  # it is a race, which a busy machine makes rare
            call = infer(map(request_for, models), timeout=20)
            if is_cancelled:
                call.cancel()
            with contextlib.suppress(RpcError):
                list(call)
            if not is_listening(triton):
                return


def test_a_stream_for_a_decoupled_model_and_another_ends_the_local_triton(decoupled: Path) -> None:
    """Triton writes the error of the second request while it still writes an answer to the first."""
    with ending(decoupled) as triton:
        stream(triton, ["deadly", "none"], is_cancelled=False)


@pytest.mark.slow
@pytest.mark.upstream_race("https://github.com/triton-inference-server/server/pull/7840")
def test_streams_that_are_cancelled_end_the_local_triton(decoupled: Path) -> None:
    with ending(decoupled) as triton:
        stream(triton, ["deadly"] * 4, is_cancelled=True)
