"""Requests that come at the same time share calls: eight rows in a call cost Triton little more than a single row.

A call has texts of about the same length, because models pad all of them to the longest. Nothing waits where nothing is
under way, so a lone request is as fast as without it.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from triton_ensemble.client import Array, Arrays, Options

IN_FLIGHT = 3  # calls of one kind at once: while two are computed, the next is in Triton's queue
Kind = tuple[tuple[str, str, tuple[int, ...], int], ...]
Send = Callable[..., Awaitable[Arrays]]  # of the client: arrays, timeout, options


@dataclass
class _Waiting:
    arrays: Arrays
    rows: int
    end: float  # time.monotonic() at which it gives up
    options: Options
    answer: asyncio.Future[Arrays]
    is_alone: bool = False  # in its call


class SharedCalls:
    """Joins requests of the same inputs, types, dims and lengths of texts to calls of at most `max_rows` rows.

    If a call is `refused` or has `failed` as a whole, each of its requests is sent again alone, once. After a failure only
    one is sent at a time: Triton would make a batch of several, and some backends fail batches as a whole.
    """

    def __init__(
        self,
        send: Send,
        join: Callable[[list[Arrays]], Arrays],
        max_rows: int,
        *,
        refused: type[Exception],
        failed: type[Exception] | tuple[()] = (),
    ) -> None:
        self._send, self._join, self._max_rows = send, join, max_rows
        self._refused, self._failed, self._turn = refused, failed, asyncio.Lock()
        self._waiting: dict[Kind, list[_Waiting]] = defaultdict(list)
        self._under_way: dict[Kind, int] = defaultdict(int)
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(self, arrays: Arrays, end: float, options: Options) -> Arrays:
        """Return the rows of a call's answer that belong to `arrays`.

        To Triton a call has the `options` of the first of them, its id and trace.
        Raises the error of the call, and TimeoutError at the `end`.
        """
        kind = tuple((n, a.dtype.str, a.shape[1:], _length(a)) for n, a in arrays.items())
        rows = len(next(iter(arrays.values())))
        answer: asyncio.Future[Arrays] = asyncio.get_running_loop().create_future()
        _limit(answer, end - time.monotonic())
        waiting = _Waiting(arrays, rows, end, options, answer)
        self._waiting[kind].append(waiting)
        if self._under_way[kind] < IN_FLIGHT:
            self._under_way[kind] += 1
            task = asyncio.ensure_future(self._run(kind))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            return await answer
        except self._refused:
            if waiting.is_alone:
                raise
        except self._failed:
            if waiting.is_alone:
                raise
            with anyio.fail_after(end - time.monotonic()):
                async with self._turn:
                    return await self._send_together([waiting])
        return await self._send_together([waiting])

    async def _run(self, kind: Kind) -> None:
        try:
            while together := self._take(kind):
                await self._answer(together)
        finally:
            self._under_way[kind] -= 1
            if not self._under_way[kind]:
                del self._under_way[kind], self._waiting[kind]

    def _take(self, kind: Kind) -> list[_Waiting]:
        """Return the waiting requests that fit into one call, without requests whose clients have left."""
        waiting = [one for one in self._waiting[kind] if not one.answer.done()]
        taken, rows = 0, 0
        while taken < len(waiting) and (not taken or rows + waiting[taken].rows <= self._max_rows):
            rows += waiting[taken].rows
            taken += 1
        self._waiting[kind] = waiting[taken:]
        return waiting[:taken]

    async def _send_together(self, together: list[_Waiting]) -> Arrays:
        first, end = together[0], max(one.end for one in together)
        first.is_alone = len(together) == 1
        joined = self._join([one.arrays for one in together])
        return await self._send(joined, timeout=end - time.monotonic(), **first.options)

    async def _answer(self, together: list[_Waiting]) -> None:
        try:
            outputs = await _unless_all_leave(self._send_together(together), together)
        except Exception as error:
            for one in together:
                if not one.answer.done():
                    one.answer.set_exception(error)
            return
        start = 0
        for one in together:
            rows = slice(start, start := start + one.rows)
            if not one.answer.done():
                one.answer.set_result({name: array[rows] for name, array in outputs.items()})


def _limit(answer: asyncio.Future[Arrays], seconds: float) -> None:
    """Let a request that nobody answers in these seconds raise TimeoutError."""

    def end() -> None:
        if not answer.done():
            answer.set_exception(TimeoutError("no answer in time"))

    timer = answer.get_loop().call_later(seconds, end)
    answer.add_done_callback(lambda _: timer.cancel())


def _length(array: Array) -> int:
    """Return which length the longest text has: 0 bytes, or from 1, 4, 16, 64 and so on; numbers have none."""
    cells = array.flat if array.dtype == object else ()
    return (max(map(len, cells), default=0).bit_length() + 1) // 2


async def _unless_all_leave(call: Awaitable[Arrays], together: list[_Waiting]) -> Arrays:
    """Return what a call does; it is cancelled, and Triton's request with it, where nobody waits for it any more."""
    task, waiting = asyncio.ensure_future(call), len(together)

    def left(_: object) -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            task.cancel()

    for one in together:
        one.answer.add_done_callback(left)
    try:
        return await task
    except asyncio.CancelledError:
        if task.cancelled():
            return {}
        raise
