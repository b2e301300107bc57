"""HTTP/1.1 on httptools: what asks the pipeline is answered by the gateway alone, all else by the application, by ASGI.

It keeps whatever comes: heads, the time of requests and answers that nobody reads have limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from http import HTTPStatus
from math import inf
from typing import Any

import httptools
from uvicorn import Config

from triton_ensemble.gateway.admission import Admission
from triton_ensemble.gateway.application import Applied
from triton_ensemble.gateway.exchange import Exchange
from triton_ensemble.gateway.gateway import Gateway
from triton_ensemble.gateway.ordinary import Ordinary
from triton_ensemble.gateway.settings import Settings

HEAD_BYTES = 64 << 10
LONG = f"The headers have more than {HEAD_BYTES} bytes."
CLOSE = (b"connection", b"close")
PLAIN = (b"content-type", b"text/plain; charset=utf-8")
STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}".encode() for status in HTTPStatus
}
Headers = Iterable[tuple[bytes, bytes]]


class Protocol(asyncio.Protocol):
    """A connection: one request after the other. A request that comes before the last answer ends the connection.

    uvicorn's server uses it as it uses its own protocols.
    """

    def __init__(
        self,
        config: Config,
        server_state: Any,  # of uvicorn, whose types name only its own protocols
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.config, self.server_state, self.app_state = config, server_state, app_state
        self.loop = _loop or asyncio.get_running_loop()
        settings: Settings = app_state.get("settings") or Settings.read()
        self._body_s, self._read_s = settings.body_s, settings.timeout_s
        gateway: Gateway | None = app_state.get("gateway")
        self.admission = gateway.admission if gateway else Admission(settings)
        self._ordinary: Ordinary | None = app_state.get("ordinary")
        self._parser = httptools.HttpRequestParser(self)
        self._exchange: Exchange | None = None  # until it is read and answered
        self._has_all = self._is_answered = False  # of the exchange
        self._keeps_alive = self._is_idle = self._is_last = self._is_rejected = False
        self._parts: list[bytes] = []  # of a body, which the exchange does not have yet
        self._head_bytes = 0  # that came since the last ones of a body
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self.writable = asyncio.Event()
        self.writable.set()

    # Of the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        transport.set_write_buffer_limits(0)  # what is not read at once is waited for
        self.server_state.connections.add(self)
        self._limit(self._body_s, transport.close)
        limit = self.config.limit_concurrency
        if limit and len(self.server_state.connections) > limit:
            self._reject("There are too many connections.", 503)
            transport.close()  # now: reading on for nobody would keep one of the files that lack

    def connection_lost(self, exc: Exception | None) -> None:
        self.server_state.connections.discard(self)
        self._unlimit()
        self.resume_writing()
        if self._exchange and not self._is_answered:
            self._exchange.cancel()

    def pause_writing(self) -> None:
        self.writable.clear()
        self._await_reading()

    def resume_writing(self) -> None:
        self.writable.set()
        self.admission.free_unread(self.transport)
        if self._unread:
            self._unread.cancel()

    def _await_reading(self, before: float = inf) -> None:
        """End the connection where nothing of an answer is read in time: it is held in memory."""
        size = self.transport.get_write_buffer_size()
        if size >= before:
            self.transport.abort()
        else:
            self._unread = self.loop.call_later(self._read_s, self._await_reading, size)

    def data_received(self, data: bytes) -> None:
        if self._is_rejected:
            return
        if self._is_idle:
            self._unlimit()
            self._is_idle = False
        self._head_bytes += len(data)
        if not self._is_last:
            self._feed(data)
            self._hand_over()
        if self._head_bytes > HEAD_BYTES:
            self._reject(LONG, 431)
        elif not self._timer and not self._exchange:
            self._limit(self._body_s, self.transport.close)
        elif not self._timer and not self._has_all and self._exchange:
            self._limit(self._body_s, self._exchange.late)

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = self._drop_offer(data[upgrade.args[0] :])
            except httptools.HttpParserError:
                return self._reject("Invalid HTTP request received.")

    def _drop_offer(self, rest: bytes) -> bytes:
        """Return a request that offers another protocol without the offer: the parser takes its body for that protocol.

        Java's client and Spring's offer HTTP/2 with each request.
        """
        offered = [(name, value) for name, value in self._headers if name != b"upgrade"]
        if offered == self._headers:  # it is a CONNECT
            self._reject("Invalid HTTP request received.")
            return b""
        version = self._parser.get_http_version().encode()
        line = b"%s %s HTTP/%s" % (self._parser.get_method(), self._url, version)
        self._parser = httptools.HttpRequestParser(self)
        return _head(line, offered) + rest

    def _reject(self, text: str, status: int = 400) -> None:
        """Answer invalid HTTP and end the connection. If a request is under way, its answer ends the connection.

        What still comes is read for nobody: to close at once would reset the connection, and the answer be lost.
        """
        if self._exchange and self._has_all:
            self._is_last = True
        elif not self.transport.is_closing() and not self._is_rejected:
            length = (b"content-length", str(len(text)).encode())
            if not self._is_answered:
                self.write(self.head(status, [PLAIN, length, CLOSE]), text.encode())
            self._is_rejected = self.transport.can_write_eof()
            if not self._is_rejected:
                return self.transport.close()
            self.transport.write_eof()
            self._unlimit()
            self._limit(self._body_s, self.transport.close)

    # Of the parser

    def on_message_begin(self) -> None:
        self._is_last = self._exchange is not None or self._is_rejected
        self._url: bytes = b""
        self._headers: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._is_last or self._parser.should_upgrade():
            return
        self._unlimit()
        self._head_bytes = 0
        self._has_all = self._is_answered = False
        self.http_version = self._parser.get_http_version()
        size = len(self._url) + sum(len(n) + len(v) + 4 for n, v in self._headers)
        if size > HEAD_BYTES:  # that came at once
            return self._reject(LONG, 431)
        hosts = sum(name == b"host" for name, _ in self._headers)
        if hosts > 1 or (not hosts and self.http_version == "1.1"):  # RFC 9112, 3.2
            return self._reject("A request has one Host header.")
        codings = [value for name, value in self._headers if name == b"transfer-encoding"]
        if any(coding.strip().lower() != b"chunked" for coding in codings):
            return self._reject("The Transfer-Encoding of a request is chunked, or there is none.")
        self._keeps_alive = self._parser.should_keep_alive() and self.http_version != "1.0"
        self._exchange = self._next()
        self._headers = []  # those that follow a body are left out
        self._exchange.begin()

    def _next(self) -> Exchange:
        method = self._parser.get_method()
        if self._ordinary and self._ordinary.takes(method, self._url):
            # Of a name that is there twice the first counts, as it does to Starlette.
            headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in self._headers[::-1]}
            return self._ordinary.exchange(self, self._url, headers)
        return Applied(self, method.decode(), self._url, self._headers)

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def _hand_over(self) -> None:
        """Hand the parts that came at once to the exchange as one: chunks of a byte each would take seconds."""
        parts, self._parts = self._parts, []
        if parts and self._exchange and not (self._is_last or self._is_rejected):
            self._head_bytes = 0
            if not self._is_answered:
                self._exchange.on_body(b"".join(parts))

    def on_message_complete(self) -> None:
        if self._exchange and not self._is_last and not self._parser.should_upgrade():
            self._hand_over()
            self._has_all = True
            self._unlimit()
            if self._is_answered:
                self._wait_for_next()
            else:
                self._exchange.on_end()

    # Of exchanges

    def head(self, status: int, headers: Headers) -> bytes:
        """Return the head of an answer, with `Connection: close` if the connection ends."""
        line = STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status
        headers = [*self.server_state.default_headers, *headers]
        if CLOSE in headers:
            self._keeps_alive = False
        elif not self._keeps_alive or self._is_last:
            headers.append(CLOSE)
        return _head(line, headers)

    def end(self) -> None:
        """Note that the answer is written; what still comes of the request is read for nobody."""
        self._is_answered = True
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self._has_all:
            self._wait_for_next()
        else:
            self._unlimit()
            self._limit(self._body_s, self.transport.close)

    def write(self, *parts: bytes, copies: int = 1) -> None:
        """Write a part of an answer, if somebody is there to read it; until it is read, so many copies are in memory."""
        if not self.transport.is_closing():
            data = b"".join(parts)
            self.transport.write(data)
            if not self.writable.is_set():
                self.admission.hold_unread(self.transport, copies * len(data))

    def _wait_for_next(self) -> None:
        if not self._keeps_alive or self._is_last:
            return self.transport.close()
        self._exchange = None
        self._is_answered, self._is_idle = False, True
        self._limit(self.config.timeout_keep_alive, self.transport.close)

    def _limit(self, seconds: float, end: Callable[[], None]) -> None:
        self._timer = self.loop.call_later(seconds, end)

    def _unlimit(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    # Of uvicorn's server

    def shutdown(self) -> None:
        """End the connection, after the answer that is under way."""
        self._keeps_alive = False
        if self._exchange is None:
            self.transport.close()


def _head(line: bytes, headers: Headers) -> bytes:
    lines = [line, *[b"%s: %s" % header for header in headers], b"", b""]
    head, ends = b"\r\n".join(lines), len(lines) - 1
    if head.count(b"\n") != ends or head.count(b"\r") != ends:
        raise ValueError("a header has the end of a line in it")
    return head
