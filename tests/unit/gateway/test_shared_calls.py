"""Requests that come at the same time share calls: each gets its rows, and what nobody waits for ends."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from triton_ensemble.facts.client import Arrays
from triton_ensemble.gateway.predict import SharedCalls


class Triton:
    """Stands for the server: answers twice the input after a pause, and notes what it was sent."""

    def __init__(self, pause_s: float = 0.05) -> None:
        self.rows: list[int] = []
        self.cancelled = 0
        self._pause_s = pause_s

    async def send(self, arrays: Arrays, *, timeout: float, **options: Any) -> Arrays:
        self.rows.append(len(arrays["A"]))
        try:
            await asyncio.sleep(self._pause_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if (arrays["A"] < 0).any():
            raise ValueError("below 0")
        return {"B": 2 * arrays["A"]}


def joined(parts: list[Arrays]) -> Arrays:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def call(calls: SharedCalls, *values: float) -> asyncio.Future[Arrays]:
    arrays = {"A": np.array([[value] for value in values], np.float32)}
    return asyncio.ensure_future(calls.call(arrays, 1e9, {}))


def test_each_gets_its_own_rows_in_calls_of_a_batch_at_most() -> None:
    async def main() -> None:
        triton = Triton()
        calls = SharedCalls(triton.send, joined, 8, refused=ValueError)
        answers = await asyncio.gather(*[call(calls, i, i + 0.5) for i in range(20)])
        assert [answer["B"].ravel().tolist() for answer in answers] == [
            [2 * i, 2 * i + 1] for i in range(20)
        ]
        assert max(triton.rows) <= 8
        assert len(triton.rows) < 20

    asyncio.run(main())


def test_long_texts_do_not_pad_short_ones() -> None:
    async def main() -> None:
        sent: list[set[int]] = []

        async def send(arrays: Arrays, **_: Any) -> Arrays:
            sent.append({len(cell) for cell in arrays["A"].flat})
            await asyncio.sleep(0.01)
            return arrays

        calls = SharedCalls(send, joined, 8, refused=ValueError)
        texts = [np.array([[b"a" * size]], object) for size in (0, 60, 100, 20, 250, 16, 64, 3)]
        answers = await asyncio.gather(*[calls.call({"A": text}, 1e9, {}) for text in texts])
        assert [answer["A"].item() for answer in answers] == [text.item() for text in texts]
        assert sent == [{0}, {16, 20, 60}, {64, 100, 250}, {3}]

    asyncio.run(main())


def test_what_is_refused_together_is_sent_again_alone_and_a_lone_one_is_not() -> None:
    async def main() -> None:
        triton = Triton()
        calls = SharedCalls(triton.send, joined, 8, refused=ValueError)
        with pytest.raises(ValueError, match="below 0"):
            await call(calls, -1)
        assert triton.rows == [1]
        right, wrong = await asyncio.gather(call(calls, 1), call(calls, -1), return_exceptions=True)
        assert isinstance(wrong, ValueError)
        assert not isinstance(right, BaseException)
        assert right["B"].tolist() == [[2.0]]
        assert triton.rows == [1, 2, 1, 1]

    asyncio.run(main())


class Lost(Exception):
    pass


def test_another_error_is_that_of_all_that_share_the_call() -> None:
    async def main() -> None:
        triton = Triton()
        calls = SharedCalls(triton.send, joined, 8, refused=Lost)
        answers = await asyncio.gather(call(calls, 1), call(calls, -1), return_exceptions=True)
        assert [type(answer) for answer in answers] == [ValueError, ValueError]
        assert (await call(calls, 3))["B"].tolist() == [[6.0]]

    asyncio.run(main())


@pytest.mark.parametrize(("leave", "cancelled"), [(2, 1), (1, 0)])
def test_a_call_ends_when_the_last_has_left(leave: int, cancelled: int) -> None:
    async def main() -> None:
        triton = Triton(0.2)
        calls = SharedCalls(triton.send, joined, 8, refused=ValueError)
        waiting = [call(calls, 1), call(calls, 2)]
        await asyncio.sleep(0.05)
        assert triton.rows == [2]
        for one in waiting[:leave]:
            one.cancel()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.sleep(0)
        assert triton.cancelled == cancelled
        assert sum(isinstance(a, asyncio.CancelledError) for a in answers) == leave

    asyncio.run(main())


def test_requests_of_a_call_that_fails_are_sent_again_one_by_one_and_once() -> None:
    """Together, Triton would make them a batch, which fails as the call did."""

    class Batching(Triton):
        computing = 0

        async def send(self, arrays: Arrays, *, timeout: float, **options: Any) -> Arrays:
            self.computing += 1
            try:
                outputs = await super().send(arrays, timeout=timeout)
                assert self.computing == 1, "shares a batch"
                return outputs
            finally:
                self.computing -= 1

    async def main() -> None:
        triton = Batching()
        calls = SharedCalls(triton.send, joined, 8, refused=Lost, failed=ValueError)
        answers = await asyncio.gather(
            *[call(calls, i, -i) for i in range(8)], return_exceptions=True
        )
        assert [type(answer) for answer in answers] == [dict, *[ValueError] * 7]
        assert triton.rows == [8, 8, *[2] * 8]

    asyncio.run(main())
