"""The models that a step calls, as functions. A call ends when nobody waits for the step's own answer any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import ContextVar
from math import inf
from time import perf_counter
from typing import Any, Protocol, TypeAlias, TypeVar

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from triton_step import SequencePosition

from .arrays import NumpyArrays
from .seams import Array, CalledModel, Request, Response

T = TypeVar("T")
Arguments: TypeAlias = Mapping[str, Array | None]  # by argument; None leaves out an optional one
LOOK_SECONDS = 0.05  # to ask Triton whether a request is cancelled takes 0.1 ms
THREADS = ThreadPoolExecutor(32)  # as many calls as Triton takes of an instance at once


class ModelRequest(Protocol):
    """A request to another model."""

    def exec(self, decoupled: bool = False) -> Any: ...  # a response, or an iterator over several


class NobodyWaitsError(TimeoutError):
    """The time of a step's request is over, or its client has left. `code` is Triton's for that."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Waiting:
    """How long the clients of the `requests` that a step answers wait. Their timeouts began with `begun`."""

    def __init__(self, requests: Sequence[Request] = (), begun: float = 0.0) -> None:
        timeouts_us = [request.timeout() for request in requests]
        self._end = begun + max(timeouts_us) / 1e6 if all(timeouts_us) and timeouts_us else inf
        self._requests, self._looked = requests, begun

    def position(self) -> SequencePosition:
        """Return the position of the request in its sequence. Without a request it is a sequence of its own."""
        return next(map(position_of, self._requests), SequencePosition(1, True, True))

    def left_us(self) -> int:
        """Return the microseconds that are left. 0 means any time."""
        return 0 if self._end == inf else max(1, int((self._end - perf_counter()) * 1e6))

    def pause(self) -> float:
        """Return the seconds until the next look."""
        return max(0.0, min(LOOK_SECONDS, self._end - perf_counter()))

    def look(self, model: str) -> None:
        """Raise NobodyWaitsError if no client waits any more."""
        now = perf_counter()
        if now >= self._end:
            text = f"has waited for model {model} until the request's time was over"
            raise NobodyWaitsError(text, pb_utils.TritonError.UNAVAILABLE)
        if self._requests and now - self._looked >= LOOK_SECONDS:
            self._looked = now
            if all(request.is_cancelled() for request in self._requests):
                raise NobodyWaitsError("cancelled", pb_utils.TritonError.CANCELLED)


class Answered:
    """The requests that a step answers now: an async step in each of its tasks, another in all threads that it starts."""

    def __init__(self) -> None:
        self.of_step = Waiting()
        self.of_task: ContextVar[Waiting | None] = ContextVar("waiting", default=None)

    def now(self) -> Waiting:
        """Return the clients that wait for the caller's work."""
        return self.of_task.get() or self.of_step


class Call:
    """A model as a function: its arguments are spelt like a step's, and outputs have their names.

    A decoupled model returns an iterator over the outputs of its answers. A model of sequences may be given a position
    first. Its default is the position of the request which the step answers.
    """

    def __init__(self, model: CalledModel, arrays: NumpyArrays, answered: Answered) -> None:
        self._model, self._arrays, self._name = model, arrays, model["name"]
        self._answered = answered

    def __call__(self, at: SequencePosition | None = None, /, **inputs: Array | None) -> object:
        waiting = self._answered.now()
        start = self._stream if "decoupled" in self._model else self._one
        return start(self._request(inputs, waiting, at), waiting)

    def _one(self, request: ModelRequest, waiting: Waiting) -> object:
        response = self._wait_for(waiting, request.exec)
        return self._outputs(response, waiting)

    def _stream(self, request: ModelRequest, waiting: Waiting) -> object:
        responses = self._wait_for(waiting, request.exec, True)
        try:
            while response := self._wait_for(waiting, next, responses, None):
                yield from self._part(response, waiting)
        finally:
            stop(responses)

    def _wait_for(self, waiting: Waiting, function: Callable[..., T], *arguments: object) -> T:
        """Run a function that waits for Triton, and return its result."""
        future = self._begin(waiting, function, *arguments)
        while not wait([future], waiting.pause()).done:
            waiting.look(self._name)
        return future.result()

    def _begin(self, waiting: Waiting, function: Callable[..., T], *arguments: object) -> Future[T]:
        waiting.look(self._name)
        return THREADS.submit(function, *arguments)

    def _request(
        self, inputs: Arguments, waiting: Waiting, at: SequencePosition | None
    ) -> ModelRequest:
        """Make the request. None leaves out an optional input.

        Raise TypeError for an argument that the model does not have.
        """
        names = self._model["arguments"]
        for argument in inputs.keys() - names.keys():
            has = ", ".join(names)
            raise TypeError(f"model {self._name} has no input {argument}; it has {has}")
        given = {names[argument]: array for argument, array in inputs.items() if array is not None}
        request: ModelRequest = pb_utils.InferenceRequest(
            model_name=self._name,
            model_version=self._model["version"],
            requested_output_names=self._model["outputs"],
            inputs=[self._arrays.tensor(name, array) for name, array in given.items()],
            timeout=waiting.left_us(),
            **self._sequence(at, waiting),
        )
        return request

    def _sequence(self, at: SequencePosition | None, waiting: Waiting) -> dict[str, int | str]:
        if "sequence" not in self._model:
            if at is not None:
                what = "serves no sequences; call it by its inputs alone"
                raise TypeError(f"model {self._name} {what}")
            return {}
        sequence, start, end = at or waiting.position()
        flags = pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START * start
        flags |= pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END * end
        return {"correlation_id": sequence, "flags": flags}

    def _outputs(self, response: Response, waiting: Waiting) -> dict[str, Array]:
        if response.has_error():
            waiting.look(self._name)  # the model's own time ends with ours, and may be seen first
            raise RuntimeError(f"model {self._name}: {response.error().message()}")
        return {tensor.name(): self._arrays.read(tensor) for tensor in response.output_tensors()}

    def _part(self, response: Response, waiting: Waiting) -> Iterator[dict[str, Array]]:
        """Yield the outputs of one answer of several. The last answer may only mark the end."""
        if outputs := self._outputs(response, waiting):
            yield outputs


class AsyncCall(Call):
    """A model as a function like Call, but awaited."""

    async def _one(self, request: ModelRequest, waiting: Waiting) -> dict[str, Array]:
        response = await self._wait_for(waiting, request.exec)
        return self._outputs(response, waiting)

    async def _stream(
        self, request: ModelRequest, waiting: Waiting
    ) -> AsyncIterator[dict[str, Array]]:
        responses = await self._wait_for(waiting, request.exec, True)
        try:
            while response := await self._wait_for(waiting, next, responses, None):
                for outputs in self._part(response, waiting):
                    yield outputs
        finally:
            stop(responses)

    async def _wait_for(  # type: ignore[override]
        self, waiting: Waiting, function: Callable[..., T], *arguments: object
    ) -> T:
        future = asyncio.wrap_future(self._begin(waiting, function, *arguments))
        while not (await asyncio.wait([future], timeout=waiting.pause()))[0]:
            waiting.look(self._name)
        return future.result()


def position_of(request: Request) -> SequencePosition:
    """Return where a request stands in its sequence."""
    flags = request.flags()
    start = bool(flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START)
    end = bool(flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END)
    return SequencePosition(request.correlation_id(), start, end)


def stop(responses: object) -> None:
    """Stop a model that may have more to answer. Triton can since 25.04."""
    if hasattr(responses, "cancel"):
        responses.cancel()
