"""A request for a stream, from its head to its first event."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from triton_ensemble.gateway.gateway import Gateway
from triton_ensemble.gateway.observe import Asked
from triton_ensemble.gateway.settings import Settings
from triton_ensemble.samples.files import Sample


def test_a_request_that_is_cancelled_while_it_comes_keeps_no_memory() -> None:
    """As Ray Serve cancels it when its client leaves."""
    client: Any = SimpleNamespace(tensors=SimpleNamespace(INPUTS={}, SEQUENTIAL=False))
    gateway = Gateway(client, Settings(), Sample("one", {}, {}))
    parts = [{"type": "http.request", "body": b"part", "more_body": True}]

    async def receive() -> dict[str, Any]:
        return parts.pop() if parts else await asyncio.Event().wait()  # type: ignore[return-value]

    async def main() -> None:
        state = {"asked": Asked("POST", "/predict", {})}
        request = Request({"type": "http", "headers": [], "state": state}, receive)
        task = asyncio.ensure_future(gateway.stream(request))
        while gateway.admission.held_bytes != 4:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert gateway.admission.held_bytes == 0

    asyncio.run(main())
