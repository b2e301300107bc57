"""A request for a stream, from its head to its first event."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from triton_ensemble.gateway.api import Calls
from triton_ensemble.gateway.gateway import Gateway
from triton_ensemble.gateway.settings import Settings
from triton_ensemble.samples.files import Sample

APP: Any = None


def test_a_request_that_is_cancelled_while_it_comes_keeps_no_memory() -> None:
    """As Ray Serve cancels it when its client leaves."""
    client: Any = SimpleNamespace(tensors=SimpleNamespace(INPUTS={}, SEQUENTIAL=False))
    gateway = Gateway(client, Settings(), Sample("one", {}, {}))
    parts = [{"type": "http.request", "body": b"part", "more_body": True}]

    async def receive() -> dict[str, Any]:
        return parts.pop() if parts else await asyncio.Event().wait()  # type: ignore[return-value]

    async def main() -> None:
        scope = {"type": "http", "method": "POST", "path": "/predict", "headers": [], "state": {}}
        calls = Calls(APP, gateway, {"/predict": gateway.stream}, "")
        task = asyncio.ensure_future(calls(scope, receive, APP))
        while gateway.admission.held_bytes != 4:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert gateway.admission.held_bytes == 0

    asyncio.run(main())
