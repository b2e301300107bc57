"""Requests to /predict that the protocol answers by itself: what FastAPI would do with them takes as long as their answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fastapi import FastAPI

from triton_ensemble.gateway import observe
from triton_ensemble.gateway.admission import Body
from triton_ensemble.gateway.exchange import Exchange
from triton_ensemble.gateway.gateway import Gateway
from triton_ensemble.gateway.observe import Asked
from triton_ensemble.gateway.refusal import Refusal
from triton_ensemble.gateway.settings import Settings

if TYPE_CHECKING:
    from triton_ensemble.gateway.protocol import Protocol

PATH = "/predict"


class Ordinary:
    """Which requests these are: none, if the owner adds to the application what would be passed by."""

    def __init__(self, app: FastAPI, gateway: Gateway, settings: Settings) -> None:
        self.gateway = gateway
        self._urls = {PATH.encode(), f"{settings.root_path}{PATH}".encode()}
        self._parts = _parts(app)
        # Answers to pages have headers of CORS; spans and their metrics are FastAPI's.
        self._is_open = not settings.cors and not observe.EXPORTED

    def is_of(self, app: FastAPI) -> bool:
        """Return whether the protocol may answer them: the application is as it was made, and would do no more."""
        return self._is_open and _parts(app)[: len(self._parts)] == self._parts

    def takes(self, method: bytes, url: bytes) -> bool:
        """Return whether the protocol answers this request by itself."""
        return method == b"POST" and url in self._urls


def _parts(app: FastAPI) -> list[object]:
    """Return what a request to /predict meets; other routes may follow it."""
    handlers = (dict(app.exception_handlers), dict(app.dependency_overrides))
    return [*handlers, list(app.user_middleware), list(app.router.dependencies), *app.router.routes]


class Predicted(Exchange):
    """A request to /predict that the protocol answers by itself, and its answer."""

    route = PATH

    def __init__(
        self, connection: Protocol, gateway: Gateway, path: str, headers: Mapping[str, str]
    ) -> None:
        super().__init__(connection, Asked("POST", path, headers))
        self._gateway = gateway

    def _admit(self) -> Body:
        return self._gateway.begin(self._asked)

    async def _answer(self, body: Body) -> None:
        try:
            response = await self._gateway.answer(self._asked, body)
        except Refusal as refusal:
            response = refusal.response(self._asked.id)
        except Exception:
            response = self._asked.failure()
        self._send(response)

    def cancel(self) -> None:
        """Cancel what is under way, and Triton's request with it."""
        if not self._task:
            super().cancel()
        elif self._task.cancel():
            self._asked.record(PATH, observe.GONE, 0)
            self._end()
