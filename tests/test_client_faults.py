"""A project's client where the server goes away, is started anew, or is none."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from support import Generate, Project, step
from test_client import Served, package, serving
from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

ONE = {
    "project_name": "one",
    "max_batch_size": 4,
    "tensors": {"A": "FP32[-1]", "B": "FP32[-1]"},
    "steps": [step("same", ["A"], ["B"])],
}
SAME = """
class Step:
    def __init__(self, context):
        pass

    def __call__(self, A):
        return {"B": A}
"""
ROW = np.zeros((1, 40_000), np.float32)


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    made = generate(**ONE)
    (made / "steps/same.py").write_text(SAME)
    return made


@pytest.fixture(scope="module")
def module(project: Project) -> Iterator[ModuleType]:
    with package(project) as imported:
        yield imported


@contextlib.contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the URL of what reads each request whole and then does as told, and the requests so far."""
    requests: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while head := received(connection):
                requests.append(head)
                answer(connection)

    def accept(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=talk, args=[listener.accept()[0]], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=[listener], daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
        listener.shutdown(socket.SHUT_RDWR)


def received(connection: socket.socket) -> bytes:
    """Return the head of a request that has come whole; nothing at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(1 << 20)):
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    missing = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]) - len(body)
    while missing:
        missing -= len(connection.recv(missing))
    return head


def drips(text: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        for i in range(len(text)):
            connection.sendall(text[i : i + 1])
            time.sleep(0.1)

    return answer


@pytest.mark.parametrize(
    "text",
    [b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20, b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + b" " * 99],
    ids=["head", "body"],
)  # fmt: skip
def test_a_deadline_is_kept_by_an_answer_that_drips(module: ModuleType, text: bytes) -> None:
    with answering(drips(text)) as (url, _), module.Client(url) as client:
        start = time.monotonic()
        with pytest.raises(module.DeadlineExceeded, match=r"no answer in 0\.5 s"):
            client.one(ROW, timeout=0.5)
        assert time.monotonic() - start < 2


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "what is not Triton's: <html>"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull", "what is not Triton's: null"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "what is not Triton's|has no B"),
        (b"HTTP/1.1 504 Slow\r\nContent-Length: 4\r\n\r\nslow", "slow"),
        (b"\x00\x00\x12\x04\x00\r\n", "the answer is not HTTP; is this the port of gRPC?"),
    ],
)
def test_an_answer_that_is_none_of_triton(module: ModuleType, answer: bytes, text: str) -> None:
    with (
        answering(lambda connection: connection.sendall(answer)) as (url, requests),
        module.Client(url) as client,
    ):
        with pytest.raises(module.InferenceError, match=text):
            client.one(ROW)
        assert len(requests) == 1


def test_a_request_is_sent_once_where_that_is_asked_for(module: ModuleType) -> None:
    """A connection that was kept is no exception: what the server has read may have been executed."""
    with (
        answering(socket.socket.close) as (url, requests),
        module.Client(url) as client,
        pytest.raises(module.Unavailable),
    ):
        client.send({"A": ROW})
    assert len(requests) == 1


def test_what_waits_ends_when_the_client_is_closed(module: ModuleType) -> None:
    with answering(lambda connection: time.sleep(5)) as (url, requests):
        client = module.Client(url)
        errors: list[Exception] = []

        def ask() -> None:
            try:
                client.infer({"A": np.repeat(ROW, 40, axis=0)})
            except module.InferenceError as error:
                errors.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        while len(requests) < 4:
            time.sleep(0.01)
        start = time.monotonic()
        client.close()
        thread.join()
        assert time.monotonic() - start < 3
        assert errors


def regions() -> list[Path]:
    return list(Path("/dev/shm").glob("client-*"))


def test_shared_memory_that_no_server_has_seen_is_used_again(module: ModuleType) -> None:
    client = module.Client("http://127.0.0.1:1", shared_memory=True, retries=2)
    for _ in range(3):
        with pytest.raises(module.Unavailable):
            client.one(ROW)
    assert len(regions()) == 1
    client.close()
    assert not regions()


def test_shared_memory_that_a_server_may_still_read_rests(module: ModuleType) -> None:
    memory = importlib.import_module(f"{module.__name__}.runtime.shared_memory")
    pool = memory.Regions()
    with contextlib.suppress(module.DeadlineExceeded), pool.lent({"A": ROW}) as first:
        first.registered = True
        raise module.DeadlineExceeded("no answer")
    with pool.lent({"A": ROW}) as second:
        assert second is not first
    first.free_at = 0.0  # a minute later
    with pool.lent({"A": ROW}) as third:
        assert third is first
    pool.close()


@pytest.fixture(scope="module")
def server(project: Project) -> Iterator[Served]:
    with serving(project) as served:
        yield served


def forget_shared_memory(server: Served) -> None:
    """Make the server forget its regions; it may still hold that of a request that it has just answered."""
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
