"""A project's client where the server goes away, is started anew, or is none."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from client_faults_support import ROW, SAME, module, project, regions  # noqa: F401
from client_support import Served, serving
from support import Generate, Project, step
from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]


@pytest.fixture(scope="module")
def server(project: Project) -> Iterator[Served]:
    with serving(project) as served:
        yield served


def forget_shared_memory(server: Served) -> None:
    """Make the server forget its regions. It may still hold that of a request that it has just answered."""
    with grpc.InferenceServerClient(server.urls["grpc"].rpartition("/")[2]) as client:
        for _ in range(50):
            with contextlib.suppress(InferenceServerException):
                client.unregister_system_shared_memory()
                return
            time.sleep(0.1)
    raise AssertionError("the server does not forget its regions")


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_shared_memory_outlives_a_server(server: Served, protocol: str) -> None:
    """A server that was started anew knows none of the regions, as one that was told to forget them."""
    with server.module.Client(server.urls[protocol], shared_memory=True) as client:
        client.one(ROW)
        forget_shared_memory(server)
        assert client.one(ROW).B.shape == ROW.shape
        assert len(regions()) == 1
    assert not regions()


def test_shared_memory_of_asyncio_outlives_a_server(server: Served) -> None:
    async def calls() -> None:
        async with server.module.AsyncClient(server.urls["grpc"], shared_memory=True) as client:
            await client.one(ROW)
            forget_shared_memory(server)
            assert (await client.one(ROW)).B.shape == ROW.shape
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.one(ROW), 0)

    asyncio.run(calls())
    assert not regions()


@pytest.fixture(scope="module")
def texts(generate: Generate) -> Iterator[Served]:
    """Serve a step that waits for a second request."""
    project = generate(
        project_name="texts",
        max_batch_size=2,
        tensors={"A": "STRING[1]", "B": "STRING[1]"},
        steps=[step("same", ["A"], ["B"], batching={"max_queue_delay_us": 500_000})],
    )
    (project / "steps/same.py").write_text(SAME)
    with serving(project) as server:
        yield server


def send_bad_string(server: Served) -> str:
    """Send a STRING that ends before its length, and return the error."""
    given = grpc.InferInput("A", [1, 1], "BYTES")
    given._raw_content = b"\xf0\xff\xff\xffbad"  # as no method of tritonclient sets it
    with (
        grpc.InferenceServerClient(server.urls["grpc"].removeprefix("grpc://")) as client,
        pytest.raises(InferenceServerException) as error,
    ):
        client.infer("texts", [given], client_timeout=20)
    return str(error.value.message())


@pytest.mark.parametrize("transport", ["http", "grpc", "asyncio"])
@pytest.mark.parametrize("method", ["texts", "send"])
def test_a_bad_string_of_another_client(texts: Served, transport: str, method: str) -> None:
    """Triton's Python backend fails all requests of a batch for it, before the adapter sees them."""
    with ThreadPoolExecutor() as pool:
        bad = pool.submit(send_bad_string, texts)
        time.sleep(0.1)
        if method == "send":
            with pytest.raises(texts.module.Unavailable, match="incomplete string data"):
                texts.call(transport, "send", {"A": np.array([[b"good"]], object)})
        else:
            assert texts.call(transport, "texts", [["good"]]).B.tolist() == [[b"good"]]
        assert "expecting string of length 4294967280 but only 3 bytes" in bad.result()


@pytest.mark.slow
def test_a_server_that_ends_is_unavailable(project: Project) -> None:
    """On a connection that it has, Triton answers for a while that it knows no version of the model."""
    said: list[str] = []
    with serving(project) as server, server.module.Client(server.urls["grpc"], retries=0) as client:
        client.one(ROW)
        os.kill(server.triton.pid, signal.SIGTERM)
        end = time.monotonic() + 20
        while not any("connect" in text for text in said):
            assert time.monotonic() < end, said
            try:
                client.one(ROW)
            except server.module.Unavailable as error:
                said.append(str(error))
    assert any("has no available versions" in text for text in said)
