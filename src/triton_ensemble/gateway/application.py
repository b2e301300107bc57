"""Requests that the application answers, by ASGI."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httptools

if TYPE_CHECKING:
    from triton_ensemble.gateway.protocol import Protocol

READ_BYTES = 64 << 10  # of a body that the application has not asked for yet
WITHOUT_BODY = (204, 304)
LOG = logging.getLogger("gateway")


class Application:
    """One of them, from its head to its answer."""

    def __init__(
        self,
        connection: Protocol,
        scope: dict[str, Any],
        url: bytes,
        headers: list[tuple[bytes, bytes]],
        *,
        expects: bool,
    ) -> None:
        self._connection, self._expects = connection, expects
        parsed, about = httptools.parse_url(url), connection.transport.get_extra_info
        self._scope = scope | {
            "type": "http",
            "asgi": {"version": connection.config.asgi_version, "spec_version": "2.3"},
            "server": (about("sockname") or ())[:2] or None,
            "client": (about("peername") or ())[:2] or None,
            "scheme": "https" if about("sslcontext") else "http",
            "root_path": connection.config.root_path,
            "path": unquote(parsed.path.decode("ascii")),
            "raw_path": parsed.path,
            "query_string": parsed.query or b"",
            "headers": headers,
            "state": connection.app_state.copy(),
        }
        self._body = bytearray()
        self._has_all = self._is_gone = self._is_over = False
        self._is_chunked = False
        self._came = asyncio.Event()  # a part, the end, or that nobody waits any more

    def begin(self) -> None:
        tasks = self._connection.server_state.tasks
        task = self._connection.loop.create_task(self._run())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def on_body(self, part: bytes) -> None:
        self._body += part
        if len(self._body) > READ_BYTES:
            self._connection.transport.pause_reading()
        self._came.set()

    def on_end(self) -> None:
        self._has_all = True
        self._came.set()

    def late(self) -> None:
        """Leave it to the application how long a body may take."""

    def gone(self) -> None:
        self._is_gone = True
        self._came.set()

    async def _run(self) -> None:
        try:
            await self._connection.config.loaded_app(self._scope, self._receive, self._send)
        except Exception:
            LOG.exception("the application failed")
        finally:
            if not self._is_over:
                self._connection.transport.close()

    async def _receive(self) -> dict[str, Any]:
        if self._expects:
            self._expects = False
            self._connection.send_continue()
        if not self._is_gone:
            self._connection.transport.resume_reading()
        await self._came.wait()
        self._came.clear()
        if self._is_gone or self._is_over:
            self._came.set()
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), bytearray()
        return {"type": "http.request", "body": body, "more_body": not self._has_all}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        await self._connection.writable.wait()
        write = self._connection.transport.write
        if self._is_gone or self._connection.transport.is_closing():
            return
        if message["type"] == "http.response.start":
            self._expects = False
            write(self._head(message["status"], list(message.get("headers", []))))
            return
        body, is_last = message.get("body", b""), not message.get("more_body", False)
        if self._scope["method"] == "HEAD":
            body = b""
        elif self._is_chunked:
            body = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
            body += b"0\r\n\r\n" if is_last else b""
        if body:
            write(body)
        if is_last:
            self._is_over = True
            self._came.set()
            self._connection.end()

    def _head(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        has_length = any(name.lower() == b"content-length" for name, _ in headers)
        has_body = self._scope["method"] != "HEAD" and status not in WITHOUT_BODY
        if has_body and not has_length:
            self._is_chunked = True
            headers.append((b"transfer-encoding", b"chunked"))
        return self._connection.head(status, headers)
