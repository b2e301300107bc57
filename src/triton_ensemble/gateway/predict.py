"""The answer to a request of any number of rows, in calls that requests share: rows that the models refuse fail alone.

Eight rows in a call cost Triton little more than a single row. A call has texts of about the same length, because
models pad all of them to the longest. If nothing is under way, nothing waits, so a lone request is as fast as without
shared calls.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
from tritonclient.grpc import aio  # type: ignore[import-untyped]

from triton_ensemble.facts.client import (
    Array,
    Arrays,
    AsyncClient,
    Options,
    Package,
)
from triton_ensemble.gateway.refusal import check_rows, find_fault
from triton_ensemble.gateway.settings import IN_FLIGHT
from triton_ensemble.gateway.triton_http import Statistics, TritonHttp

SHARED_IN_FLIGHT = (
    3  # calls of one kind at once: while two are computed, the next is in Triton's queue
)
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
        Raise the error of the call, or TimeoutError at the `end`.
        """
        kind = tuple((n, a.dtype.str, a.shape[1:], _length(a)) for n, a in arrays.items())
        rows = len(next(iter(arrays.values())))
        answer: asyncio.Future[Arrays] = asyncio.get_running_loop().create_future()
        _limit(answer, end - time.monotonic())
        waiting = _Waiting(arrays, rows, end, options, answer)
        self._waiting[kind].append(waiting)
        if self._under_way[kind] < SHARED_IN_FLIGHT:
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
    """Return the class of the longest text's length.

    It is 0 for 0 bytes, 1 from 1 byte on, 2 from 4, 3 from 16, 4 from 64 and so on. Numbers have class 0.
    """
    cells = array.flat if array.dtype == object else ()
    return (max(map(len, cells), default=0).bit_length() + 1) // 2


async def _unless_all_leave(call: Awaitable[Arrays], together: list[_Waiting]) -> Arrays:
    """Return the result of a call, and cancel the call if no request waits for it any more.

    Triton's request is then cancelled, too.
    """
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


Rows: TypeAlias = range | list[int]  # of a request
STATISTICS_S = 5.0
END_S = 5.0  # for the end of a sequence that nobody waits for


@dataclass
class Answer:
    """The outputs of the rows that were answered, in order, and why the others were not, by row.

    Rows that were sent to Triton apart may differ in shape, so each request to Triton has its own outputs.
    """

    parts: list[Arrays]
    rows: int
    errors: dict[int, Exception] = field(default_factory=dict)


@dataclass
class _Part:
    rows: Rows
    outputs: Arrays | None = None
    error: Exception | None = None

    def split(self) -> Iterator[_Part]:
        """Yield each row as a part, without copies."""
        if self.outputs is None:
            yield self
            return
        for at, row in enumerate(self.rows):
            outputs = {name: array[at : at + 1] for name, array in self.outputs.items()}
            yield _Part(range(row, row + 1), outputs)


class Predictor:
    """Calls the ensemble by the project's `client`, over one `connection`."""

    def __init__(
        self,
        client: Package,
        connection: AsyncClient | TritonHttp,
        *,
        shared: bool,
        recorder: Any = None,
    ) -> None:
        self._client, self._connection, self._recorder = client, connection, recorder
        self._ending: set[asyncio.Task[None]] = set()
        self.join = client.runtime.batches.join_rows
        batch = client.tensors.MAX_BATCH_SIZE
        refused = client.InvalidInput
        apart = client.tensors.SEQUENTIAL or hasattr(client.tensors, "REQUESTS_APART")
        alone = not shared or batch < 2 or apart
        failed = client.runtime.errors.ServerFailure
        shared_calls = SharedCalls(
            connection.send, self.join, batch, refused=refused, failed=failed
        )
        self._send = self._alone if alone else shared_calls.call

    async def answer(
        self, inputs: Mapping[str, object], max_rows: int, end: float, options: Options
    ) -> Answer:
        """Return the answer to inputs by name.

        Raise InferenceError if it fails, TimeoutError when time.monotonic() is `end`, or Refusal 413 for too many rows.
        """
        arrays = self._arrays(inputs)
        ranges = self._client.runtime.batches.split(arrays)
        count = ranges[-1].stop
        check_rows(count, max_rows)
        exchange = self._recorder and self._recorder.begin(arrays, {})
        if count and self._client.tensors.SEQUENTIAL:
            answer = await self._sequence(arrays, count, end, options)
        else:
            parts = await self._parts(arrays, _sort_by_length(arrays, ranges), end, options)
            if refused := [part for part in parts if part.error and len(part.rows) > 1]:
                alone = [range(row, row + 1) for part in refused for row in part.rows]
                parts = [part for part in parts if part not in refused]
                parts += await self._parts(arrays, alone, end, options)
            answer = _combine(parts, count)
        if exchange and not answer.errors:
            with suppress(self._client.runtime.errors.ServerFailure):  # rows differ in shape
                exchange.end(self.join(answer.parts))
        return answer

    async def _parts(
        self, arrays: Arrays, requests: Sequence[Rows], end: float, options: Options
    ) -> list[_Part]:
        """Return the answers to several requests, in order. If one raises, the others end too."""
        if len(requests) == 1:
            return [await self._part(arrays, requests[0], end, options)]
        turns = asyncio.Semaphore(IN_FLIGHT)

        async def sent(rows: Rows) -> _Part:
            async with turns:
                return await self._part(arrays, rows, end, options)

        tasks = [asyncio.ensure_future(sent(rows)) for rows in requests]
        try:
            return [await task for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _sequence(self, arrays: Arrays, count: int, end: float, options: Options) -> Answer:
        """Return the answer to rows that are one sequence, sent in order. A row that is refused ends it."""
        sequence: Options = {**options, "sequence": random.randrange(1, 2**63)}
        parts: list[_Part] = []
        try:
            for row in range(count):
                place: Options = {**sequence, "start": row == 0, "end": row == count - 1}
                parts.append(part := await self._part(arrays, range(row, row + 1), end, place))
                if part.error:
                    return Answer([], count, {row: part.error})
            return _combine(parts, count)
        finally:
            if row < count - 1:
                task = asyncio.ensure_future(self._end_sequence(arrays, sequence))
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)

    async def _end_sequence(self, arrays: Arrays, sequence: Options) -> None:
        """Send the first row as the last, because Triton would hold the sequence's place, for which others wait."""
        with suppress(self._client.InferenceError):
            await self._part(arrays, range(1), time.monotonic() + END_S, {**sequence, "end": True})

    async def _part(self, arrays: Arrays, rows: Rows, end: float, options: Options) -> _Part:
        if isinstance(rows, range):
            part = self._client.runtime.batches.part(arrays, rows)
        else:
            part = {name: array[rows] for name, array in arrays.items()}
        try:
            return _Part(rows, await self._send(part, end, options))
        except self._client.InvalidInput as error:
            if not isinstance(rows, range):
                return _Part(rows, error=error)  # each of them is sent again, alone
            return _Part(rows, error=self._client.runtime.errors.shift_rows(error, rows))

    async def stream(
        self, inputs: Mapping[str, object], timeout_s: float, options: Options
    ) -> AsyncGenerator[Arrays, None]:
        """Yield the answers of a decoupled pipeline as they come, or raise InferenceError.

        The rows may be one sequence.
        """
        until = time.monotonic() + timeout_s
        sequence = random.randrange(1, 2**63) if self._client.tensors.SEQUENTIAL else 0
        split = self._client.runtime.positions.split_sequence
        given = self._arrays(inputs)
        exchange = self._recorder and self._recorder.begin(given, {})
        for arrays, start, end in split(given):
            place: Options = {**options, "sequence": sequence, "start": start, "end": end}
            async with aclosing(self._stream(arrays, until - time.monotonic(), place)) as answers:
                async for outputs in answers:
                    if exchange:
                        exchange.add(outputs)
                    yield outputs
        if exchange:
            exchange.end()

    async def first(self, arrays: Arrays, timeout_s: float) -> None:
        """Wait for one answer to a request as it is, or raise InferenceError."""
        if isinstance(self._connection, TritonHttp) or not self._client.tensors.DECOUPLED:
            await self._connection.send(arrays, timeout=timeout_s)
            return
        async with aclosing(self._stream(arrays, timeout_s, {})) as answers:
            await anext(answers, None)

    def _stream(
        self, arrays: Arrays, timeout_s: float, options: Options
    ) -> AsyncGenerator[Arrays, None]:
        assert not isinstance(self._connection, TritonHttp)
        return self._connection.send_stream(arrays, timeout=timeout_s, **options)

    def _arrays(self, inputs: Mapping[str, object]) -> Arrays:
        """Return the inputs as the ensemble takes them.

        Raise InvalidInput, which says which row can't be an input.
        """
        try:
            return self._client.runtime.batches.arrays(inputs)
        except self._client.InvalidInput:
            self.check(inputs)
            raise

    def check(self, inputs: Mapping[str, object]) -> None:
        """Raise InvalidInput for the first value that does not fit its tensor: which row, and what to write."""
        tensors = self._client.tensors
        batch = bool(tensors.MAX_BATCH_SIZE)
        for name in inputs.keys() & tensors.INPUTS.keys():
            found = find_fault(name, tensors.INPUTS[name], inputs[name], batch=batch)
            if found and inputs[name] is not None:
                rows = range(0) if found.row is None else range(found.row, found.row + 1)
                raise self._client.InvalidInput(found.text, rows) from None

    async def _alone(self, arrays: Arrays, end: float, options: Options) -> Arrays:
        timeout = end - time.monotonic()
        return await self._connection.send(arrays, timeout=timeout, **options)


def grpc_connection(client: Package, url: str) -> Statistics:
    """Return a connection to the server at a URL for statistics, which the connection of the client does not answer."""
    transport, grpc = client.runtime.transport, client.runtime.grpc_transport
    made: Statistics = grpc.GrpcTransport(
        aio, transport.server(url, None), {}, transport.Tls()
    ).connect()
    return made


async def count(connection: Statistics) -> dict[str, dict[str, int]]:
    """Return what Triton has counted of each model, all versions together: requests, and nanoseconds by kind."""
    statistics = await connection.get_inference_statistics(client_timeout=STATISTICS_S)
    counted: dict[str, Counter[str]] = {}
    for model in statistics.model_stats:
        of = model.inference_stats
        computed = of.compute_input.ns + of.compute_infer.ns + of.compute_output.ns
        counted.setdefault(model.name, Counter()).update(
            requests=of.success.count, queue_ns=of.queue.ns, compute_ns=computed
        )
    return {name: dict(counter) for name, counter in counted.items()}


def _sort_by_length(arrays: Arrays, ranges: Sequence[range]) -> Sequence[Rows]:
    """Return the rows of several requests so that each has texts of about the same length: models pad all to the longest."""
    texts = [array for array in arrays.values() if array.dtype == object]
    if len(ranges) == 1 or not texts:
        return ranges
    sizes = [
        sum(len(cell) for text in texts for cell in text[row].flat)
        for row in range(ranges[-1].stop)
    ]
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    parts = [order[rows.start : rows.stop] for rows in ranges]
    return [range(part[0], part[0] + 1) if len(part) == 1 else part for part in parts]


def _combine(parts: Sequence[_Part], count: int) -> Answer:
    """Return the parts in the order of the request's rows."""
    if any(isinstance(part.rows, list) for part in parts):
        parts = [row for part in parts for row in part.split()]
    parts = sorted(parts, key=lambda part: part.rows[0] if part.rows else 0)
    errors = {part.rows[0]: part.error for part in parts if part.error}
    answered = [part.outputs for part in parts if part.outputs is not None]
    return Answer(answered, count or 1, errors)


KEPT_S = 2.0  # however many ask, Triton is asked once in that time
READY_S = 8.0


class Readiness:
    """The readiness of the pipeline, which `ask(timeout_s)` finds out.

    A refusal is an answer, too, if the template made up the request (`made_up`).
    """

    def __init__(
        self, ask: Callable[[float], Awaitable[object]], client: Package, *, made_up: bool
    ) -> None:
        self._ask, self._client, self._made_up = ask, client, made_up
        self._asked_at, self._problem = -KEPT_S, ""
        self._turn = asyncio.Lock()

    async def problem(self) -> str:
        """Return why the pipeline does not answer, or an empty string if it does."""
        async with self._turn:
            if time.monotonic() - self._asked_at >= KEPT_S:
                self._problem = await self._find_problem()
                self._asked_at = time.monotonic()
            return self._problem

    async def _find_problem(self) -> str:
        try:
            await self._ask(READY_S)
        except self._client.InvalidInput:
            return "" if self._made_up else "the pipeline refuses the first of samples/"
        except self._client.InferenceError as error:
            return type(error).__name__
        return ""
