"""Requests that the application answers, by ASGI."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import unquote

import httptools
from starlette.datastructures import Headers
from starlette.types import Message

from triton_ensemble.gateway import bodies
from triton_ensemble.gateway.admission import Body
from triton_ensemble.gateway.exchange import Exchange
from triton_ensemble.gateway.gateway import Gateway
from triton_ensemble.gateway.observe import Asked

if TYPE_CHECKING:
    from triton_ensemble.gateway.protocol import Protocol

WITHOUT_BODY = (204, 304)
STREAM_COPIES = 8  # in memory of an event that is not read: of gRPC, arrays, JSON and chunks, and those of the next
LOG = logging.getLogger("gateway")


class Applied(Exchange):
    """A request that the application answers, and its answer."""

    def __init__(
        self, connection: Protocol, method: str, url: bytes, headers: list[tuple[bytes, bytes]]
    ) -> None:
        parsed, about = httptools.parse_url(url), connection.transport.get_extra_info
        path = unquote(parsed.path.decode("ascii"))
        super().__init__(connection, Asked(method, path, Headers(raw=headers)))
        self._scope = {
            "type": "http",
            "asgi": {"version": connection.config.asgi_version, "spec_version": "2.3"},
            "http_version": connection.http_version,
            "method": method,
            "scheme": "https" if about("sslcontext") else "http",
            "server": (about("sockname") or ())[:2] or None,
            "client": (about("peername") or ())[:2] or None,
            "root_path": connection.config.root_path,
            "path": path,
            "raw_path": parsed.path,
            "query_string": parsed.query or b"",
            "headers": headers,
            "state": {**connection.app_state, "asked": self._asked},
        }
        self._is_chunked = False

    def _admit(self) -> Body:
        """Let the request in. Only its route knows whether it asks for a key, so a long body without one is refused."""
        state, headers = self._connection.app_state, self._asked.headers
        gateway: Gateway | None = state.get("gateway")
        is_stranger = gateway is not None and not gateway.keys.are_in(self._asked)
        # The gateway counts the objects of tensors, as it reads them again.
        is_tensors = self._asked.path in state.get("tensor_paths", ())
        is_json = not is_tensors and bodies.is_json(headers)
        return self._connection.admission.body(
            headers, is_json=is_json, is_typed=True, is_own=True, is_stranger=is_stranger
        )

    async def _answer(self, body: Body) -> None:
        self._messages = [{"type": "http.request", "body": body.content(), "more_body": False}]
        try:
            await self._connection.config.loaded_app(self._scope, self._receive, self._respond)
        except Exception:
            LOG.exception("%s: failed", self._asked.id)
        finally:
            body.close()
            if not self._is_over.is_set():
                self._connection.transport.close()
                self._end()

    def cancel(self) -> None:
        """Tell the application, if it has the request."""
        if self._task:
            self._is_over.set()
        else:
            super().cancel()

    async def _receive(self) -> Message:
        if self._messages:
            return self._messages.pop()
        await self._is_over.wait()
        return {"type": "http.disconnect"}

    async def _respond(self, message: Message) -> None:
        await self._connection.writable.wait()
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            self._connection.write(self._head(message["status"], headers))
            return
        body, is_last = message.get("body", b""), not message.get("more_body", False)
        if self._scope["method"] == "HEAD":
            body = b""
        elif self._is_chunked:
            body = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
            body += b"0\r\n\r\n" if is_last else b""
        self._connection.write(body, copies=STREAM_COPIES if self._is_chunked else 1)
        if is_last and not self._is_over.is_set():
            self._end()

    def _head(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        has_length = any(name.lower() == b"content-length" for name, _ in headers)
        has_body = self._scope["method"] != "HEAD" and status not in WITHOUT_BODY
        if has_body and not has_length and self._scope["http_version"] == "1.1":
            self._is_chunked = True
            headers.append((b"transfer-encoding", b"chunked"))
        return self._connection.head(status, headers)
