"""A request that finds no place gets its status before it is read."""

from __future__ import annotations

import asyncio

import pytest

from triton_ensemble.gateway.admission import Admission
from triton_ensemble.gateway.refusal import Refusal
from triton_ensemble.gateway.settings import Settings


@pytest.mark.parametrize("waiting", [0, 1])
def test_as_many_wait_as_the_settings_say_and_the_next_gets_429(waiting: int) -> None:
    async def fill() -> tuple[list[bool], Refusal]:
        admission = Admission(Settings(concurrency=1, waiting=waiting, wait_s=5, adapt=0))
        found = [admission.is_full]
        with await admission.acquire():
            waiters = [asyncio.ensure_future(admission.acquire()) for _ in range(waiting)]
            for _ in range(waiting + 1):
                found.append(admission.is_full)
                await asyncio.sleep(0)
            with pytest.raises(Refusal) as refused:
                admission.check()
        for waiter in waiters:
            await waiter
        return found, refused.value

    found, refusal = asyncio.run(fill())
    assert found == [False, *[False] * waiting, True]
    assert (refusal.status, refusal.headers) == (429, {"Retry-After": "1"})
