"""Requests to the pipeline that the protocol answers by itself: what FastAPI would do with them takes as long as their answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fastapi import FastAPI

from triton_ensemble.gateway import observe
from triton_ensemble.gateway.admission import Body
from triton_ensemble.gateway.exchange import Answering, Exchange
from triton_ensemble.gateway.gateway import Gateway
from triton_ensemble.gateway.observe import Asked
from triton_ensemble.gateway.refusal import Refusal
from triton_ensemble.gateway.settings import Settings

if TYPE_CHECKING:
    from triton_ensemble.gateway.protocol import Protocol


class Ordinary:
    """Which requests these are: none, if the owner adds to the application what would be passed by."""

    def __init__(
        self, app: FastAPI, gateway: Gateway, answers: Mapping[str, Answering], settings: Settings
    ) -> None:
        self._gateway, roots = gateway, {"", settings.root_path}
        self._asks = {f"{r}{ask[0]}".encode(): ask for ask in answers.items() for r in roots}
        self._parts = _parts(app)
        # Answers to pages have headers of CORS; spans and their metrics are FastAPI's.
        self._is_open = not settings.cors and not observe.EXPORTED

    def is_of(self, app: FastAPI) -> bool:
        """Return whether the protocol may answer them: the application is as it was made, and would do no more."""
        return self._is_open and _parts(app)[: len(self._parts)] == self._parts

    def takes(self, method: bytes, url: bytes) -> bool:
        """Return whether the protocol answers this request by itself."""
        return method == b"POST" and url in self._asks

    def exchange(self, connection: Protocol, url: bytes, headers: Mapping[str, str]) -> Exchange:
        """Return such a request, with its answer to be."""
        asked = Asked("POST", url.decode(), headers)
        return Asking(connection, asked, self._gateway, *self._asks[url])


def _parts(app: FastAPI) -> list[object]:
    """Return what a request to the pipeline meets; other routes may follow it."""
    handlers = (dict(app.exception_handlers), dict(app.dependency_overrides))
    return [*handlers, list(app.user_middleware), list(app.router.dependencies), *app.router.routes]


class Asking(Exchange):
    """A request to the pipeline that the protocol answers by itself, and its answer."""

    def __init__(
        self, connection: Protocol, asked: Asked, gateway: Gateway, route: str, answer: Answering
    ) -> None:
        super().__init__(connection, asked)
        self._gateway, self.route, self._ask = gateway, route, answer

    def _admit(self) -> Body:
        return self._gateway.begin(self._asked)

    async def _answer(self, body: Body) -> None:
        try:
            response = await self._ask(self._asked, body)
        except Refusal as refusal:
            response = self._asked.refuse(refusal)
        except Exception:
            response = self._asked.failure()
        self._send(response)

    def cancel(self) -> None:
        """Cancel what is under way, and Triton's request with it."""
        if not self._task:
            super().cancel()
        elif self._task.cancel():
            self._asked.record(self.route, observe.GONE, 0)
            self._end()
