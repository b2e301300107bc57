"""The parts that the owner's routes ask for by FastAPI's dependencies: a key, and the pipeline."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Annotated

from fastapi import Depends
from fastapi.security import APIKeyHeader
from numpy.typing import ArrayLike
from starlette.requests import Request
from starlette.responses import Response

from triton_ensemble.client import Arrays
from triton_ensemble.gateway.describe import KEY
from triton_ensemble.gateway.gateway import Gateway

HEADER = APIKeyHeader(name="X-API-Key", scheme_name=KEY, auto_error=False)  # describes it


async def _require_key(request: Request, _: Annotated[str | None, Depends(HEADER)]) -> None:
    request.app.state.gateway.keys.check(request.state.asked)


Key = Depends(_require_key)  # asks for one of the gateway's API keys, if there are any


class Asking:
    """The pipeline as a request with a key asks it: its calls have its id and trace, places, and the time that each may take."""

    def __init__(self, request: Request) -> None:
        self._gateway: Gateway = request.app.state.gateway
        self._request, self._asked = request, request.state.asked

    @property
    def model(self) -> str:
        """Its name."""
        return str(self._gateway.tensors.MODEL)

    @property
    def takes(self) -> frozenset[str]:
        """The names of its inputs."""
        return frozenset(self._gateway.tensors.INPUTS)

    async def __call__(
        self, inputs: Mapping[str, ArrayLike] | None = None, /, **named: ArrayLike
    ) -> Arrays:
        """Return the outputs by name, arrays of shape [batch, *dims] with texts as bytes.

        Raises Refusal, which answers the request as /predict would: one row that is refused refuses all.
        """
        return await self._gateway.outputs(self._asked, {**(inputs or {}), **named})

    def stream(
        self, inputs: Mapping[str, ArrayLike] | None = None, /, **named: ArrayLike
    ) -> AsyncGenerator[Arrays, None]:
        """Yield the answers of a decoupled pipeline as they come; raises Refusal."""
        return self._gateway.iter_answers(self._asked, {**(inputs or {}), **named})

    async def send_events(self, events: AsyncGenerator[bytes, None]) -> Response:
        """Answer by server-sent events, which end if the client does not read them."""
        return await self._gateway.send_events(self._request, events)


def _make_asking(request: Request, _: Annotated[None, Key]) -> Asking:
    return Asking(request)


Pipeline = Annotated[Asking, Depends(_make_asking)]
