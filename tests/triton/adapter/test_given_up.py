"""Requests that their clients have given up: by each door, the next caller waits for the running call and no more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from os import environ
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton_http  # type: ignore[import-untyped]
from asking import as_inputs, asked, connect, four, streamed
from client_support import Served, serving
from gateway_service import Service, gateway
from step_code import step_code
from step_models import write_step
from support import Generate, step

from triton_ensemble.serve.local.local_triton import LocalTriton

# Of one call of the step. Triton may leave a request in an idle queue for half a second (docs/batching.md).
SECONDS = float(environ.get("GIVEN_UP_SECONDS", "1"))
PATIENCE = 0.35 * SECONDS
GIVEN_UP = 6
SLEEP = step_code(
    """
def __call__(self, S):
    time.sleep(float(S.sum()))
    return {"T": S}
""",
    "import time",
)
POLICY = {"allow_timeout_override": True, "default_timeout_us": 86_400_000_000}
Doors = tuple[Served, Service]


@pytest.fixture(
    scope="module",
    params=[8, *(pytest.param(most, marks=pytest.mark.slow) for most in (1, 0))],
    ids=lambda most: f"max_batch_size {most}",
)
def doors(request: pytest.FixtureRequest, generate: Generate) -> Iterator[Doors]:
    most = request.param
    steps = [step("sleep", ["S"], ["T"], batching={"default_queue_policy": POLICY})]
    tensors = {"S": "FP32[1]", "T": "FP32[1]"}
    project = generate(
        project_name=f"given-up-{most}",
        max_batch_size=most,
        tensors=tensors,
        steps=steps,
        extras=["gateway"],
    )
    (project / "steps/sleep.py").write_text(SLEEP)
    with serving(project) as served, gateway(project, served.triton.grpc_url) as service:
        yield served, service


def array(doors: Doors, seconds: float) -> Any:
    shape = (1, 1) if doors[0].module.tensors.MAX_BATCH_SIZE else (1,)
    return np.full(shape, seconds, np.float32)


def ask_grpc(doors: Doors, seconds: float, patience: float) -> None:
    arrays, model = {"S": array(doors, seconds)}, doors[0].module.tensors.MODEL
    with connect(doors[0].triton) as client:
        asked(client, model, arrays, timeout=int(patience * 1e6), client_timeout=patience)


def ask_http(doors: Doors, seconds: float, patience: float) -> None:
    url, values = doors[0].triton.http_url.removeprefix("http://"), array(doors, seconds)
    with triton_http.InferenceServerClient(url, network_timeout=patience) as client:
        given = triton_http.InferInput("S", [*values.shape], "FP32")
        given.set_data_from_numpy(values)
        client.infer(doors[0].module.tensors.MODEL, [given], timeout=int(patience * 1e6))


def ask_client(doors: Doors, seconds: float, patience: float) -> None:
    doors[0].call("grpc", "infer", {"S": array(doors, seconds)}, timeout=patience)


def ask_gateway(doors: Doors, seconds: float, patience: float) -> None:
    doors[1].post({"S": [seconds]}, X_Request_Timeout=str(patience))


@pytest.mark.parametrize("ask", [ask_grpc, ask_http, ask_client, ask_gateway])
def test_the_next_caller_waits_for_the_running_call_alone(
    doors: Doors, ask: Callable[[Doors, float, float], None]
) -> None:
    def give_up(_: int) -> None:
        with suppress(Exception):
            ask(doors, SECONDS, PATIENCE)

    ask(doors, 0, 60)
    with ThreadPoolExecutor(GIVEN_UP) as callers:
        running = callers.submit(give_up, 0)
        time.sleep(0.1 * SECONDS)
        list(callers.map(give_up, range(1, GIVEN_UP)))
        running.result()
    start = time.monotonic()
    ask(doors, 0, 60)
    calls = (time.monotonic() - start) / SECONDS
    print(f"{ask.__name__}: the next caller waited for {calls:.2f} calls")
    assert calls < 1.5


@pytest.mark.parametrize("seconds", ["soon", "0", "nan", "1_0"])
def test_a_timeout_that_is_none_is_refused(doors: Doors, seconds: str) -> None:
    answer = doors[1].post({"S": [0]}, X_Request_Timeout=seconds)
    assert (answer.status, answer.json()["error"]) == (
        400,
        "X-Request-Timeout: write seconds, as 2.5",
    )


STREAM = """
def __call__(self, IN):
    import time
    for _ in range(2):
        time.sleep(float(IN[0, 0]))
        yield {"OUT": IN}
"""


def test_abandoned_streams_are_not_computed(tmp_path: Path) -> None:
    """Triton has given the model those of the next batch or two. The model was asked itself, not in an ensemble."""
    write_step(tmp_path, "stream", STREAM, more="model_transaction_policy { decoupled: true }")
    with LocalTriton(tmp_path, "stream") as triton:
        given = as_inputs({"IN": four(SECONDS / 2)})

        def abandon(_: int) -> None:
            with connect(triton) as client:
                client.start_stream(lambda result, error: None)
                client.async_stream_infer("stream", given)
                time.sleep(SECONDS / 4)
                client.stop_stream(cancel_requests=True)

        with ThreadPoolExecutor(20) as callers:
            list(callers.map(abandon, range(20)))
        start = time.monotonic()
        streamed(triton, "stream", {"IN": four(0)})
        assert time.monotonic() - start < 1.5 * SECONDS
