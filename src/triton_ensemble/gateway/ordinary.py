"""Requests to /predict that the protocol answers by itself: what FastAPI would do with them takes as long as their answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.responses import Response

from triton_ensemble.gateway import bodies, observe
from triton_ensemble.gateway.admission import Body
from triton_ensemble.gateway.gateway import Gateway
from triton_ensemble.gateway.observe import Asked
from triton_ensemble.gateway.refusal import Refusal
from triton_ensemble.gateway.settings import Settings

if TYPE_CHECKING:
    from triton_ensemble.gateway.protocol import Protocol

PATH = "/predict"
Headers = list[tuple[bytes, bytes]]


class Ordinary:
    """Which requests these are: none, if the owner adds to the application what would be passed by."""

    def __init__(self, app: FastAPI, gateway: Gateway, settings: Settings) -> None:
        self.gateway, self.path = gateway, settings.root_path + PATH
        self._urls = {PATH.encode(), self.path.encode()}
        self._has_cors = bool(settings.cors)
        self._parts = _parts(app)

    def is_of(self, app: FastAPI) -> bool:
        """Return whether an application is as it was made; spans and their metrics are FastAPI's."""
        return _parts(app)[: len(self._parts)] == self._parts and not observe.EXPORTED

    def takes(self, method: bytes, url: bytes, headers: Headers) -> bool:
        """Return whether a request is one of these; where a page of another origin asks, CORS has a say."""
        if url not in self._urls or method != b"POST":
            return False
        return not (self._has_cors and any(name == b"origin" for name, _ in headers))


def _parts(app: FastAPI) -> list[Any]:
    """Return what a request to /predict meets; other routes may follow it."""
    handlers = (dict(app.exception_handlers), dict(app.dependency_overrides))
    return [*handlers, list(app.user_middleware), list(app.router.dependencies), *app.router.routes]


class Predicted:
    """One of them, from its head to its answer."""

    def __init__(
        self, connection: Protocol, ordinary: Ordinary, headers: Headers, *, expects: bool
    ) -> None:
        texts = {name.decode("latin-1"): text.decode("latin-1") for name, text in reversed(headers)}
        self._connection, self._gateway = connection, ordinary.gateway
        self._asked, self._expects = Asked("POST", ordinary.path, texts), expects
        self._body: Body | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    def begin(self) -> None:
        """Let it in, or refuse it before its body comes: that costs the least."""
        try:
            self._body = self._gateway.begin(self._asked)
        except Refusal as refusal:
            self._refuse(refusal)
            return
        if self._expects:
            self._connection.send_continue()

    def on_body(self, part: bytes) -> None:
        assert self._body
        try:
            self._body.add(part)
        except Refusal as refusal:
            self._refuse(refusal)

    def on_end(self) -> None:
        tasks = self._connection.server_state.tasks  # which uvicorn awaits when it ends
        self._task = self._connection.loop.create_task(self._run())
        tasks.add(self._task)
        self._task.add_done_callback(tasks.discard)

    def late(self) -> None:
        """Refuse it, as its body does not come in time."""
        self._refuse(self._gateway.late())

    def gone(self) -> None:
        """Cancel what is under way, as the client has left, and Triton's request with it."""
        if self._task:
            self._task.cancel()
            self._end(observe.GONE, 0)
        else:
            self._refuse(bodies.cut())

    async def _run(self) -> None:
        assert self._body
        try:
            response = await self._gateway.answer(self._asked, self._body)
        except Refusal as refusal:
            response = refusal.response(self._asked.id)
        except Exception:
            response = self._asked.failure()
        self._send(response)

    def _refuse(self, refusal: Refusal) -> None:
        self._send(refusal.response(self._asked.id))

    def _send(self, response: Response) -> None:
        connection, body = self._connection, bytes(response.body)
        headers = [*response.raw_headers, (b"x-request-id", self._asked.id.encode())]
        if not connection.transport.is_closing():
            connection.transport.write(connection.head(response.status_code, headers) + body)
        self._end(response.status_code, len(body))
        connection.end()

    def _end(self, status: int, size: int) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._body:
            self._body.close()
        self._asked.record(PATH, status, size)
