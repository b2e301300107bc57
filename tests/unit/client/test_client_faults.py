"""A project's client where the server goes away, is started anew, or is none."""

from __future__ import annotations

import contextlib
import importlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest
from client_faults_support import ROW, module, project, regions  # noqa: F401


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
    """Return the head of a request that has come whole, or nothing at the end."""
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


WHOLE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n" + b" " * 99
)


@pytest.mark.parametrize(
    "answer",
    [
        *(WHOLE[:length] for length in (0, 3, 10, 13, 16, 17, 25, 40, 60, 70, 99, -1)),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n[1, ",
        b"HTTP/1.1 429 Busy\r\nContent-Length: 4\r\n\r\nbusy",
    ],
)
def test_a_server_that_ends_in_its_answer_or_is_busy_is_asked_again(
    module: ModuleType, answer: bytes
) -> None:
    def cut(connection: socket.socket) -> None:
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_RDWR)

    with answering(cut) as (url, requests), module.Client(url, retries=2) as client:
        with pytest.raises(module.Unavailable):
            client.one(ROW)
        assert len(requests) == 3


def test_a_request_is_sent_once_where_that_is_asked_for(module: ModuleType) -> None:
    """A connection that was kept is not an exception: what the server has read may have been executed."""
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
    with contextlib.suppress(module.DeadlineExceeded), pool.lend({"A": ROW}) as first:
        first.registered = True
        raise module.DeadlineExceeded("no answer")
    with pool.lend({"A": ROW}) as second:
        assert second is not first
    first.free_at = 0.0  # a minute later
    with pool.lend({"A": ROW}) as third:
        assert third is first
    pool.close()


def test_a_header_has_one_line(module: ModuleType) -> None:
    headers = {"K": "v\r\nHost: another"}
    with pytest.raises(ValueError, match="header 'K' has more than one line"):
        module.Client("http://127.0.0.1:1", headers=headers)
    with (
        module.Client("http://127.0.0.1:1") as client,
        pytest.raises(ValueError, match="header 'K' has more than one line"),
    ):
        client.send({"A": ROW}, headers=headers)
