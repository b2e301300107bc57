"""HTTP/1.1 as uvicorn reads it, with limits on heads and on requests that wait: it keeps whatever comes."""

from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from triton_ensemble.gateway.overload import Overload

HEAD_BYTES = 64 << 10
CLOSE = (b"connection", b"close")
# Java's client offers HTTP/2, and the parser takes the body of such a request for that.
UPGRADE = re.compile(rb"\A((?:[^\r\n]+\r\n)+?)Upgrade:", re.IGNORECASE)
WAITING = 64  # requests of one connection behind the one that is answered
ANSWERED: Any = SimpleNamespace(response_complete=True, message_event=asyncio.Event())


class Protocol(HttpToolsProtocol):
    """A connection, closed when a request's head is not there `head_s` after it was opened, or after its first bytes."""

    def __init__(self, *arguments: Any, head_s: float, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_s = head_s
        self._head_bytes = 0  # that came since the last ones of a body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_late.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.timeout_keep_alive_task:  # nothing was asked since the last answer
            self._await_head()
        self._head_bytes += len(data)
        if not self._head_is_late.cancelled():
            data = UPGRADE.sub(rb"\1X-Upgrade:", data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._head_bytes > HEAD_BYTES:
            self.send_400_response(f"The headers have more than {HEAD_BYTES} bytes.")
        elif len(self.pipeline) > WAITING:
            self.send_400_response(f"More than {WAITING} requests wait for their answers.")

    def on_headers_complete(self) -> None:
        self._head_is_late.cancel()
        self._head_bytes = 0
        if not self._is_refused():
            super().on_headers_complete()

    def _is_refused(self) -> bool:
        """Refuse a request that no place is left for, before it has a task and the application a part in it."""
        overload: Overload | None = self.app_state.get("overload")
        in_turn = self.cycle is None or self.cycle.response_complete
        if not overload or not in_turn or not overload.takes(self.parser, self.url, self.headers):
            return False
        keep_alive = self.parser.should_keep_alive()
        headers = [*self.server_state.default_headers, *([] if keep_alive else [CLOSE])]
        self.transport.write(overload.refusal(self.headers, headers))
        self.cycle = ANSWERED  # its body is read, for no one
        if not keep_alive:
            self.transport.close()
        self.on_response_complete()
        return True

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_is_late.cancel()  # what came after a refusal was a body
        super().on_message_complete()

    def _await_head(self) -> None:
        self._head_is_late = self.loop.call_later(self._head_s, self.transport.close)
