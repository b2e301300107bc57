"""The project's application as uvicorn serves it in a worker, by HTTP/1.1 with the limits that uvicorn lacks.

They are of heads, of what follows a refusal, and of answers that nobody reads. An error in the project's code is one line.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
import time
import traceback
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import httptools
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from triton_ensemble.gateway.admission import Admission
from triton_ensemble.gateway.call import Call
from triton_ensemble.gateway.refusal import Refusal
from triton_ensemble.gateway.settings import Settings
from triton_ensemble.serve.local.process import ServerError

HEAD_BYTES = 64 << 10
CODING = b"transfer-encoding"
INVALID = "Invalid HTTP request received."
LONG = f"The headers have more than {HEAD_BYTES} bytes."
STREAM_COPIES = 8  # in memory of an event that is not read: of gRPC, arrays, JSON and chunks, and those of the next


class Connection(HttpToolsProtocol):
    """A connection: one request after the other. A request that comes before the last answer ends the connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.limit_concurrency = None  # uvicorn keeps connections that are too many
        settings: Settings = app_state.get("settings") or Settings.read()
        self._admission: Admission = app_state.get("admission") or Admission(settings)
        self._body_s, self._read_s = settings.body_s, settings.timeout_s
        self._has_all = self._is_idle = self._is_last = False
        self._head_bytes = 0  # that came since the last ones of a body
        self._head: bytes | None = None  # of an answer, which is written with what follows it
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # what is not read at once is waited for
        self._limit(self._body_s)
        most = self.config.limit_concurrency
        if most and len(self.connections) > most:
            self._end("There are too many connections.", 503)
            transport.close()  # now: reading on for nobody would keep one of the files that lack

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.resume_writing()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._admission.free_unread(self.transport)
        if self._unread:
            self._unread.cancel()

    def _await_reading(self, before: float = inf) -> None:
        """End the connection if nothing of an answer is read in time, because it is held in memory."""
        size = self.transport.get_write_buffer_size()
        if size >= before:
            self.transport.abort()
        else:
            self._unread = self.loop.call_later(self._read_s, self._await_reading, size)

    def _limit(self, seconds: float) -> None:
        """End the connection after these seconds, as uvicorn does with an idle one."""
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    def data_received(self, data: bytes) -> None:
        if self._is_last:
            return
        self._head_bytes += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self._reject()
        if self._head_bytes > HEAD_BYTES:
            self._reject()
        elif self._is_idle and not self.cycle:  # the rest of a head has to come in time
            self._is_idle = False
            self._limit(self._body_s)

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = self._drop_offer(data[upgrade.args[0] :])

    def _drop_offer(self, rest: bytes) -> bytes:
        """Return a request that offers another protocol without the offer: the parser takes its body for that protocol.

        Java's client and Spring's offer HTTP/2 with each request.
        """
        offered = [header for header in self.headers if header[0] != b"upgrade"]
        if offered == self.headers:
            raise httptools.HttpParserError("it is a CONNECT")
        version = self.parser.get_http_version().encode()
        line = b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)
        self.parser = httptools.HttpRequestParser(self)
        return b"\r\n".join([line, *(b"%s: %s" % header for header in offered), b"", rest])

    def _reject(self) -> None:
        """Answer invalid HTTP and end the connection. If a request is under way, its answer ends the connection."""
        if self._is_last or self.transport.is_closing():
            return
        self._is_last = True
        if self.cycle and self._has_all and not self.cycle.response_complete:
            self.cycle.keep_alive = False
            return
        is_long = self._head_bytes > HEAD_BYTES
        # A head that is refused has its answer first.
        self.loop.call_soon(self._end, *((LONG, 431) if is_long else (INVALID, 400)))

    def _end(self, text: str, status: int) -> None:
        """Write the answer to invalid HTTP, unless its head has another, and discard what comes after.

        To close at once would reset the connection, and the answer be lost.
        """
        if self.transport.is_closing():
            return
        cycle = self.cycle
        is_answered = cycle and (
            not self._has_all if cycle.response_complete else cycle.response_started
        )
        if cycle and not cycle.response_complete:  # its body is invalid
            cycle.disconnected = True
            cycle.message_event.set()
        if not is_answered:
            length = b"content-length: %d" % len(text)
            head = [STATUS_LINE[status] + b"content-type: text/plain; charset=utf-8", length]
            head += [b"%s: %s" % header for header in self.server_state.default_headers]
            self.transport.write(b"\r\n".join([*head, b"connection: close", b"", text.encode()]))
        self.transport.write_eof()
        self._limit(self._body_s)

    def on_message_begin(self) -> None:
        if self.cycle and not self.cycle.response_complete:
            raise ValueError("the last request is not answered")
        super().on_message_begin()
        self._has_all = False
        self.cycle = None  # type: ignore[assignment]

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        if self._head_bytes > HEAD_BYTES:  # with what follows the head
            self._head_bytes = len(self.url) + sum(len(n) + len(v) + 4 for n, v in self.headers)
        if self._head_bytes > HEAD_BYTES or not self._is_valid():
            raise ValueError(INVALID)
        self._head_bytes, self._head = 0, None
        self._unset_keepalive_if_required()
        super().on_headers_complete()
        self.cycle.transport = self  # type: ignore[assignment]
        self.headers = []  # those that follow a body are left out

    def _is_valid(self) -> bool:
        """Return whether a request has one Host (RFC 9112, 3.2), and no coding of its body other than chunks."""
        names = [name for name, _ in self.headers]
        hosts = names.count(b"host")
        if hosts != 1 and (hosts or self.parser.get_http_version() != "1.0"):
            return False
        codings = [v for n, v in self.headers if n == CODING] if CODING in names else []
        return all(coding.strip().lower() == b"chunked" for coding in codings)

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._has_all = True
        super().on_message_complete()
        if self.cycle.response_complete:
            self._is_idle = True
            self._limit(self.timeout_keep_alive)
            if not self.cycle.keep_alive:
                self.transport.close()

    def on_response_complete(self) -> None:
        self._flush()  # the head of an answer to HEAD
        super().on_response_complete()
        if self._has_all:
            self._is_idle = True
        else:  # what still comes of the request is read for nobody
            self._limit(self._body_s)

    # The cycle of a request writes to its connection as if that were its transport.

    def write(self, data: bytes) -> None:
        """Write a part of an answer, which counts as memory while it is not read."""
        if self.cycle.chunked_encoding and self.cycle.scope["http_version"] == "1.0":
            data = _drop_chunks(data)
        if self._head is None and self.cycle.response_started:
            self._head = data
        else:
            self._flush(data)

    def _flush(self, more: bytes = b"") -> None:
        """Write the head of an answer and what follows it by one call of the system, which takes as long as to parse a request."""
        data, self._head = (self._head or b"") + more, self._head and b""
        if data and not self.transport.is_closing():
            self.transport.write(data)
            if self.flow.write_paused:
                copies = STREAM_COPIES if self.cycle.chunked_encoding else 1
                self._admission.hold_unread(self.transport, copies * len(data))

    def is_closing(self) -> bool:
        """Return whether nobody reads answers any more."""
        return self.transport.is_closing()

    def close(self) -> None:
        """End the connection, once all of the request is read: to close before would reset it, and the answer be lost."""
        self._flush()
        if self._has_all:
            self.transport.close()


def _drop_chunks(data: bytes) -> bytes:
    """Return a part of an answer to HTTP/1.0, which does not know chunks: uvicorn sends them to all."""
    if data.startswith(b"HTTP/"):
        return data.replace(b"transfer-encoding: chunked\r\n", b"")
    size, _, rest = data.partition(b"\r\n")
    return rest[: int(size, 16)] if size else b""


ROUTES = "gateway/routes.py"
AGAIN_S = 2.0  # until a worker that can't load the application is started again
LOG = logging.getLogger("gateway")


class ApplicationError(ServerError):
    """Raised for code of gateway/ that can't be served: the line of the file, and what is wrong."""


def application() -> FastAPI:
    """Return the application of the project in the working directory, or raise ApplicationError."""
    try:
        app: FastAPI = importlib.import_module("gateway.app").app
    except Exception as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error).partition("\n")[0]
        raise ApplicationError(f"{_where(error)}: {type(error).__name__}: {reason}") from error
    for line in _list_hidden(app):
        raise ApplicationError(line)
    return app


def worker() -> FastAPI:
    """Return the application for a worker process. If that fails, uvicorn soon starts another process in its place."""
    try:
        return application()
    except ApplicationError as error:
        LOG.error(error)
        time.sleep(AGAIN_S)
        sys.exit(1)  # STARTUP_FAILURE of uvicorn would end the other workers, too


def make_reloaded() -> ASGIApp:
    """Return the application for a server that reloads it when files change.

    While it can't load, each answer says why.
    """
    try:
        return application()
    except ApplicationError as error:
        LOG.error(error)
        refusal = Refusal(500, str(error))

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        call = Call(scope, receive, send)
        await call.refuse(refusal)
        call.end("other")

    return answer


def _where(error: Exception) -> str:
    """Return the last line of the project, not of a library, in an error's traceback."""
    lines = [(Path(f.filename), f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        lines.append((Path(error.filename), error.lineno))
    root = Path.cwd()
    ours = [(path.relative_to(root), n) for path, n in lines if path.is_relative_to(root)]
    # The project's environment is in .venv.
    own = [f"{path}:{n}" for path, n in ours if not path.parts[0].startswith(".")]
    return own[-1] if own else "gateway/"


def _list_hidden(app: FastAPI) -> Iterator[str]:
    """Yield a line for each of the owner's routes that a route of the gateway hides from all requests."""
    ours = [route for route in app.routes if isinstance(route, Route)]
    for route in iter_route_contexts(app.routes):
        for method in sorted(() if route.original_route in ours else route.methods or ()):
            asked = {"type": "http", "path": route.path, "method": method}
            if any(one.matches(asked)[0] is Match.FULL for one in ours):
                yield f"{ROUTES}: {method} {route.path} is the gateway's own; write another path"
