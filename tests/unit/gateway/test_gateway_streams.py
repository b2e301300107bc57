"""A request for a stream, from its head to its first event."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from triton_ensemble.gateway.api import Calls
from triton_ensemble.gateway.call import WATCH_S, Call
from triton_ensemble.gateway.gateway import Gateway
from triton_ensemble.gateway.settings import Settings
from triton_ensemble.testing.files import Sample

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


def test_a_client_that_leaves_is_watched_for_once() -> None:
    """Also by a stream, which is watched for its first event."""
    received = 0

    async def receive() -> dict[str, Any]:
        nonlocal received
        received += 1
        await asyncio.sleep(0.01)
        return {"type": "http.disconnect"}

    async def main() -> None:
        call = Call({"method": "POST", "path": "/predict", "headers": []}, receive, APP)
        call.watch()
        call.watch()
        await asyncio.sleep(3 * WATCH_S)
        call.end("/predict")

    asyncio.run(main())
    assert received == 1
