"""A request on a connection, from its head to its answer, with the limits that hold for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from starlette.responses import Response

from triton_ensemble.gateway import bodies
from triton_ensemble.gateway.admission import Body
from triton_ensemble.gateway.observe import Asked
from triton_ensemble.gateway.refusal import Refusal

if TYPE_CHECKING:
    from triton_ensemble.gateway.protocol import Protocol

Answering: TypeAlias = Callable[[Asked, Body], Awaitable[Response]]  # once the body is complete


class Exchange:
    """Reads a request; `_answer` is called when all of it is there."""

    route = "other"

    def __init__(self, connection: Protocol, asked: Asked) -> None:
        self._connection, self._asked = connection, asked
        self._body: Body | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_over = asyncio.Event()

    def begin(self) -> None:
        """Let the request in, or refuse it before its body comes: that costs the least."""
        try:
            self._body = self._admit()
        except Refusal as refusal:
            self._refuse(refusal)
            return
        if self._asked.headers.get("expect", "").lower() == "100-continue":
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _admit(self) -> Body:
        raise NotImplementedError

    def on_body(self, part: bytes) -> None:
        assert self._body
        try:
            self._body.add(part)
        except Refusal as refusal:
            self._refuse(refusal)

    def on_end(self) -> None:
        assert self._body
        tasks = self._connection.server_state.tasks  # which uvicorn awaits when it ends
        self._task = self._connection.loop.create_task(self._answer(self._body))
        tasks.add(self._task)
        self._task.add_done_callback(tasks.discard)

    async def _answer(self, body: Body) -> None:
        raise NotImplementedError

    def late(self) -> None:
        """Refuse the request, as its body does not come in time."""
        self._refuse(self._connection.admission.late())

    def cancel(self) -> None:
        """End it, as the client has left before all of the request was there."""
        self._refuse(bodies.cut())

    def _refuse(self, refusal: Refusal) -> None:
        self._send(self._asked.refuse(refusal))

    def _send(self, response: Response) -> None:
        body = bytes(response.body)
        headers = [*response.raw_headers, (b"x-request-id", self._asked.id.encode())]
        self._connection.write(self._connection.head(response.status_code, headers), body)
        self._asked.record(self.route, response.status_code, len(body))
        self._end()

    def _end(self) -> None:
        self._is_over.set()
        if self._body:
            self._body.close()
        self._connection.end()
