# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The clients without the types of the ensemble: one for asyncio, one for threads.

Both share the same coroutines. In BaseAsyncClient they wait for the event loop. In BaseClient they block
instead, so that they end at their first step, and `make_blocking` turns them into methods.
"""

import asyncio
import functools
import os
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeAlias, TypeVar, cast
from weakref import WeakSet

from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import aio  # type: ignore[import-untyped]

from ..tensors import MAX_BATCH_SIZE, OUTPUTS, URL
from .batches import Arrays, Inputs, arrays, join_rows, part, select_outputs, split
from .errors import InferenceError, InvalidInput, Unavailable, shift_rows
from .grpc_transport import GrpcTransport, lose_connections, settle
from .http_transport import HttpTransport
from .recorder import find_recorder
from .transport import Deadline, Request, Tls, server

CLOSED = "the client is closed; make a new one"

T = TypeVar("T")
P = ParamSpec("P")
Self = TypeVar("Self", bound="Calls")
Call: TypeAlias = Callable[[], Coroutine[Any, Any, Arrays]]


class Calls:
    """The base of both clients. Each adds how to wait, and how to run several requests at once."""

    max_batch_size = MAX_BATCH_SIZE  # rows that one request may have; 0 without a batch dimension
    _default_url: ClassVar[str]
    _api: ClassVar[Any]  # tritonclient's module for gRPC
    _pause: ClassVar[Any]
    _gather: Callable[[Sequence[Call]], Coroutine[Any, Any, list[Arrays]]]
    _make_regions: ClassVar[Any] = None  # with the extra `shared-memory`

    def __init__(
        self,
        url: str | None = None,
        *,
        timeout: float = 60.0,
        retries: int = 4,
        in_flight: int = 4,
        shared_memory: bool = False,
        headers: Mapping[str, str] | None = None,
        tls: Tls | None = None,
        record: str | None = None,
    ) -> None:
        if in_flight < 1:
            raise ValueError(f"in_flight is {in_flight}; it must be 1 or more")
        if shared_memory and not self._make_regions:
            instead = "write `shared-memory` in `extras` of pipeline.yml, and run `make apply`"
            raise ValueError(f"this project has no code for shared_memory; {instead}")
        address, headers = server(url or self._default_url, tls), dict(headers or {})
        self._transport: GrpcTransport | HttpTransport
        if address.scheme.startswith("grpc"):
            self._transport = GrpcTransport(self._api, address, headers, tls or Tls())
        elif self._api is grpc:
            self._transport = HttpTransport(address, headers, tls or Tls())
        else:
            raise ValueError(f"{url} is not gRPC, which asyncio needs here; write grpc://host:port")
        self.timeout, self._retries, self._in_flight = timeout, retries, in_flight
        self._shared_memory, self._closed, self._record = shared_memory, False, record
        options: dict[str, Any] = {"in_flight": in_flight, "shared_memory": shared_memory}
        options |= {"retries": retries, "headers": headers, "tls": tls, "record": record}
        self._again = functools.partial(type(self), url, **options)
        self._start()
        _clients.add(self)

    def _start(self) -> None:
        """Make the objects that belong to this process, and drop the parent's after a fork."""
        self._transport.forget()
        self._recorder = find_recorder(self._record)
        self._pool = ThreadPoolExecutor(self._in_flight)  # for BaseClient; threads start on demand
        self._regions = self._make_regions() if self._shared_memory else None

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        """Pickle the options: another process opens its own connections."""
        return functools.partial(self._again, timeout=self.timeout), ()

    def _begin(self, timeout: float | None) -> Deadline:
        """Return the deadline of a new call; raise InferenceError if the client is closed."""
        if self._closed:
            raise InferenceError(CLOSED)
        return Deadline(self.timeout if timeout is None else timeout)

    async def _answer(self, request: Request, rows: range) -> Arrays:
        """Return the answer to some rows of a call."""
        answer = await self._answer_part(rows, request)
        for pause in request.deadline.pauses(self._retries):
            if not isinstance(answer, Unavailable):
                break
            await settle(self._pause(pause))
            answer = await self._answer_part(rows, request)
        if isinstance(answer, InvalidInput) and len(rows) > 1:
            rows, answer = await self._find_first_refused(rows, answer, request)
        if isinstance(answer, InferenceError):
            raise shift_rows(answer, rows)
        return answer

    async def _find_first_refused(
        self, rows: range, error: InvalidInput, request: Request
    ) -> tuple[range, InferenceError]:
        """Find the first refused row and its own error, by halving: Triton refuses all rows together."""
        suspects = rows
        while len(suspects) > 1:
            half = suspects[: len(suspects) // 2]
            answer = await self._answer_part(half, request)
            if isinstance(answer, InferenceError) and not isinstance(answer, InvalidInput):
                return rows, error
            suspects = half if isinstance(answer, InvalidInput) else suspects[len(half) :]
        answer = await self._answer_part(suspects, request)
        return (suspects, answer) if isinstance(answer, InvalidInput) else (rows, error)

    async def _answer_part(self, rows: range, request: Request) -> Arrays | InferenceError:
        try:
            return await self._send_request(request._replace(inputs=part(request.inputs, rows)))
        except InferenceError as error:
            if self._closed:
                raise InferenceError(CLOSED) from None
            return error

    async def _send_request(self, request: Request) -> Arrays:
        exchange = self._recorder and self._recorder.begin(request.inputs, request.options)
        if self._regions is None:
            answer = await self._transport.infer(request)
        else:
            answer = cast(Arrays, await self._regions.send(self._transport, request))
        if exchange:
            exchange.end(answer)
        return answer


_clients: WeakSet[Calls] = WeakSet()


def _start_all() -> None:
    lose_connections()
    for client in list(_clients):
        client._start()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_start_all)


class BaseAsyncClient(Calls):
    """BaseClient for asyncio, over gRPC only. It belongs to the event loop that first uses it.

    url: `grpc://` or `grpcs://` with host and port. BaseClient has the other options.
    """

    _default_url, _api, _pause = "grpc://127.0.0.1:8001", aio, staticmethod(asyncio.sleep)

    async def ready(self, timeout: float | None = None) -> bool:
        """Return whether the server answers and has loaded the ensemble."""
        try:
            return await self._transport.ready(self._begin(timeout))
        except InferenceError:
            return False

    async def infer(
        self, inputs: Inputs, *, outputs: Sequence[str] | None = None, timeout: float | None = None
    ) -> Arrays:
        """Return the outputs by name for the `inputs` by name: all outputs, unless `outputs` names some.

        Each is an array of shape [batch, *dims], without batch where the ensemble has no batch
        dimension; texts are bytes. `timeout` (seconds) is for the whole call. Raises InferenceError.
        """
        request = Request(arrays(inputs), select_outputs(outputs), self._begin(timeout))
        rows, *more = split(request.inputs)
        if not more:
            return await self._answer(request, rows)
        calls = [functools.partial(self._answer, request, each) for each in (rows, *more)]
        return join_rows(await self._gather(calls))

    async def send(
        self,
        inputs: Arrays,
        *,
        outputs: Sequence[str] = tuple(OUTPUTS),
        timeout: float | None = None,
        request_id: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Arrays:
        """Send one request as it is: do not check, split or repeat it.

        `request_id` is for the server's log and traces; only this request has `headers`.
        """
        options = {"request_id": request_id}
        request = Request(inputs, outputs, self._begin(timeout), options, headers or {})
        return await self._send_request(request)

    async def close(self) -> None:
        """Close the connections; an idle connection delays the server's shutdown."""
        self._closed = True
        if self._regions:
            await self._regions.end(self._transport, Deadline(self.timeout))
        await self._transport.close()

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _gather(self, calls: Sequence[Call]) -> list[Arrays]:
        """Return the answers to requests, of which `in_flight` run at once; raise the first error."""
        turns = asyncio.Semaphore(self._in_flight)

        async def run_in_turn(call: Call) -> Arrays:
            async with turns:
                return await call()

        tasks = [asyncio.ensure_future(run_in_turn(call)) for call in calls]
        try:
            return [await task for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def run_to_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that does not wait for an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    raise RuntimeError("a coroutine of the synchronous client waits for an event loop")


def make_blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Make a method of the synchronous client from a method of the asynchronous client."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        return run_to_end(method(self, *arguments, **options))

    return call


class BaseClient(Calls):
    """Calls the ensemble over HTTP or gRPC. Threads may share a client.

    url: `http://`, `https://`, `grpc://` or `grpcs://` with host and port.
    timeout: seconds for a call with all its requests and retries, unless the call has its own timeout.
    retries: how often to repeat a request if the server does not answer or is too busy.
    in_flight: how many requests a call with more rows than `max_batch_size` sends at once.
    shared_memory: send inputs through system shared memory, to a server on this machine that allows it.
    headers: sent with each request; tls: the certificates, if they are not the system's.
    record: the folder for recordings of requests, by default TRITON_RECORD; "" records nothing.
    """

    _default_url, _api, _pause = URL, grpc, staticmethod(time.sleep)

    ready = make_blocking(BaseAsyncClient.ready)
    infer = make_blocking(BaseAsyncClient.infer)
    send = make_blocking(BaseAsyncClient.send)
    _shut = make_blocking(BaseAsyncClient.close)

    def answers(self, inputs: Inputs, *, timeout: float | None = None) -> Iterator[Arrays]:
        """Yield all answers to a call, whether the ensemble is decoupled or not: here, one."""
        yield self.infer(inputs, timeout=timeout)

    def close(self) -> None:
        """Close the connections, even while other threads call; an idle connection delays the server's shutdown."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._shut()
        self._pool.shutdown()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _gather(self, calls: Sequence[Call]) -> list[Arrays]:
        try:
            return list(self._pool.map(lambda call: run_to_end(call()), calls))
        except CancelledError:
            raise InferenceError(CLOSED) from None
