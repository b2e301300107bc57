"""The gateway's HTTP/1.1, by what a connection answers to the bytes that it is sent."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import PlainTextResponse
from uvicorn import Config
from uvicorn.server import ServerState

from triton_ensemble.gateway.protocol import Protocol
from triton_ensemble.gateway.settings import Settings

ALIVE = PlainTextResponse("alive")
OFFER = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"


def said(data: bytes, app: Any = ALIVE) -> bytes:
    """Return all that a connection answers until it is closed."""

    async def main() -> bytes:
        config, state = Config(app, log_config=None), ServerState()
        config.load()
        settings = Settings(body_s=5, timeout_s=5)
        server = await asyncio.get_running_loop().create_server(
            lambda: Protocol(config, state, {}, settings=settings), "127.0.0.1", 0
        )
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(data)
            answer = await asyncio.wait_for(reader.read(), 5)
            writer.close()
        return answer

    return asyncio.run(main())


def test_many_offers_of_another_protocol_end_the_connection_as_one_does() -> None:
    assert said((b"GET / HTTP/1.1\r\n" + OFFER + b"\r\n") * 1000).count(b"HTTP/1.1 200") == 1


def test_an_offer_by_http_1_0_stays_one_answer() -> None:
    assert b"\r\nconnection: close\r\n" in said(b"GET / HTTP/1.0\r\n" + OFFER + b"\r\n")


async def stream(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200})
    for more in (True, False):
        await send({"type": "http.response.body", "body": b"part", "more_body": more})


def test_a_stream_to_http_1_0_ends_with_the_connection() -> None:
    head, _, body = said(b"GET / HTTP/1.0\r\n\r\n", stream).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body == b"partpart"
