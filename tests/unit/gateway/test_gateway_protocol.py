"""The gateway's HTTP/1.1, by what a connection answers to the bytes that it is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from uvicorn import Config
from uvicorn.server import ServerState

from triton_ensemble.gateway.admission import Body
from triton_ensemble.gateway.api import Calls, Handlers
from triton_ensemble.gateway.gateway import Gateway
from triton_ensemble.gateway.server import Connection
from triton_ensemble.gateway.settings import Settings
from triton_ensemble.testing.files import Sample

CLIENT: Any = SimpleNamespace(tensors=SimpleNamespace(INPUTS={}, SEQUENTIAL=False))
ALIVE = PlainTextResponse("alive")
OFFER = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"


@asynccontextmanager
async def serving(app: Any, state: ServerState, **settings: float) -> AsyncIterator[Any]:
    """Serve an application below the gateway, and yield the address."""
    given = Settings(**settings)  # type: ignore[arg-type]
    gateway = Gateway(CLIENT, given, Sample("one", {}, {}))
    config = Config(Calls(app, gateway, {}, ""), log_config=None)
    config.load()
    shared = {"settings": given, "admission": gateway.admission}
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(config, state, shared), "127.0.0.1", 0
    )
    async with server:
        yield server.sockets[0].getsockname()


def said(
    *parts: bytes,
    app: Any = ALIVE,
    pause_s: float = 0,
    around: Any = Handlers,
    **settings: float,
) -> bytes:
    """Return all that a connection answers until it is closed, with a pause after each part of what is sent."""

    async def main() -> bytes:
        async with serving(around(app), ServerState(), **settings) as address:
            reader, writer = await asyncio.open_connection(*address)
            for part in parts:
                writer.write(part)
                await asyncio.sleep(pause_s)
            answer = await asyncio.wait_for(reader.read(), 5)
            writer.close()
        return answer

    return asyncio.run(main())


@pytest.mark.parametrize("offer", [b"", OFFER])
def test_requests_that_do_not_wait_for_an_answer_end_the_connection(offer: bytes) -> None:
    answer = said((b"GET / HTTP/1.1\r\nHost: a\r\n" + offer + b"\r\n") * 1000)
    assert answer.count(b"HTTP/1.1 200") == answer.count(b"HTTP/1.1") == 1
    assert b"\r\nconnection: close\r\n" in answer


def test_what_follows_a_refusal_is_no_second_answer() -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = said(head + b"4\r\nbodyX", max_bytes=1)
    assert answer.count(b"HTTP/1.1") == answer.count(b"HTTP/1.1 413") == 1


def test_an_offer_by_http_1_0_stays_one_answer() -> None:
    assert b"\r\nconnection: close\r\n" in said(b"GET / HTTP/1.0\r\n" + OFFER + b"\r\n")


def test_a_middleware_of_the_owner_reads_no_more_than_is_admitted() -> None:
    read: list[int] = []

    def own(app: Any) -> Any:
        async def call(scope: Any, receive: Any, send: Any) -> None:
            read.append(len((await receive())["body"]))
            await Handlers(app)(scope, receive, send)

        return call

    body = b" " * 1000
    head = b"POST / HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert said(head + body, around=own, max_bytes=999).startswith(b"HTTP/1.1 413")
    assert said(head + body, around=own, max_bytes=1000).startswith(b"HTTP/1.1 200")
    assert read == [0, 1000]


async def echo(scope: Any, receive: Any, send: Any) -> None:
    message = await receive()
    more = [name for name, _ in scope["headers"] if name == b"trailer-field"]
    await PlainTextResponse(message["body"] + b"".join(more))(scope, receive, send)


def test_an_offer_of_another_protocol_keeps_the_body() -> None:
    """Java's client offers HTTP/2 with each request, and uvicorn alone loses its body."""
    request = b"POST / HTTP/1.0\r\n" + OFFER + b"Content-Length: 4\r\n\r\nbody"
    for parts in ([request], [request[:30], request[30:]]):
        assert said(*parts, app=echo, pause_s=0.01).endswith(b"\r\n\r\nbody")


def test_fields_that_follow_a_body_are_not_headers() -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"4\r\nbody\r\n0\r\nTrailer-Field: a\r\n\r\n"
    assert said(head + body, app=echo).endswith(b"\r\n\r\nbody")


@pytest.mark.parametrize("hosts", [b"", b"Host: a\r\nHost: b\r\n"])
def test_a_request_has_one_host(hosts: bytes) -> None:
    assert said(b"GET / HTTP/1.1\r\n" + hosts + b"\r\n").startswith(b"HTTP/1.1 400")


async def stream(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200})
    for more in (True, False):
        await send({"type": "http.response.body", "body": b"part", "more_body": more})


def test_a_stream_to_http_1_0_ends_with_the_connection() -> None:
    head, _, body = said(b"GET / HTTP/1.0\r\n\r\n", app=stream).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body == b"partpart"


def test_a_refusal_is_read_also_where_the_connection_ends_with_it() -> None:
    """To close it with a part of the body unread would reset it: behind nginx, 502 in place of the refusal."""
    body = b" " * 10_000_000
    head = b"POST / HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert said(head + body, max_bytes=1).startswith(b"HTTP/1.1 413")


def test_a_little_that_nobody_reads_keeps_no_connection() -> None:
    """Of answers of 30 kB the kernel takes some. The rest of one is less than asyncio calls much."""

    async def main() -> None:
        state = ServerState()
        async with serving(PlainTextResponse("a" * 30_000), state, timeout_s=0.2) as address:
            _, writer = await asyncio.open_connection(*address, limit=1)  # that reads no more
            [connection] = state.connections
            while not connection.transport.get_write_buffer_size():
                writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                await asyncio.sleep(0.01)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            while state.connections:
                await asyncio.sleep(0.01)
            writer.close()

    asyncio.run(asyncio.wait_for(main(), 10))


def test_a_body_that_does_not_come_is_refused_in_time_on_any_route() -> None:
    head = b"POST /mine HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"
    assert said(head, body_s=0.1).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"identity, chunked", b"chunked, gzip"])
def test_a_body_that_is_coded_for_the_transfer_is_refused(coding: bytes) -> None:
    head = b"POST /mine HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: %s\r\n\r\n" % coding
    assert said(head + b"1\r\na\r\n0\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_a_body_in_chunks_is_read() -> None:
    head = (
        b"POST /mine HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n\r\n"
    )
    assert said(head + b"1\r\na\r\n0\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_chunks_of_a_byte_are_handed_over_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data that a connection sends at once is read before others are answered: each part that is checked alone takes time."""
    parts: list[int] = []
    add = Body.add

    def count(self: Body, part: bytes) -> None:
        parts.append(len(part))
        add(self, part)

    monkeypatch.setattr(Body, "add", count)
    head = (
        b"POST /mine HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n"
    )
    chunks = b"1\r\na\r\n" * 100_000
    answer = said(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert sum(parts) == 100_000
    assert len(parts) < 1000


@pytest.mark.parametrize(("part", "pause_s"), [(1 << 20, 0), (7000, 0), (7000, 0.01)])
@pytest.mark.parametrize("size", [60_000, 66_000, 200_000])
def test_a_long_head_is_refused_however_it_comes(size: int, part: int, pause_s: float) -> None:
    head = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nA: %s\r\n\r\n" % (b"a" * size)
    status = b"200" if size < 64 << 10 else b"431"
    parts = [head[i : i + part] for i in range(0, len(head), part)]
    assert said(*parts, pause_s=pause_s).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(("level", "lines"), [(logging.INFO, 1), (logging.WARNING, 0)])
def test_the_access_log_has_the_level_of_its_logger(
    caplog: pytest.LogCaptureFixture, level: int, lines: int
) -> None:
    caplog.set_level(level, "gateway.access")
    caplog.handler.setLevel(logging.INFO)
    said(b"GET / HTTP/1.0\r\n\r\n")
    assert len(caplog.messages) == lines
