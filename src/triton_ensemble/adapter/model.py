"""Serve Python steps in Triton.

A step is called once for the rows of several requests, and each request is answered by its outputs or its error.
`step.json` in the version folder names the steps. The config that Triton passes has names and types.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from time import perf_counter, sleep
from typing import Any, TypeVar

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from triton_step import SequencePosition

from .arrays import LIBRARIES, StepError
from .calls import Answered, Waiting, position_of
from .context import VERSION_FOLDER, device
from .fused import FusedSteps
from .pace import Pace
from .refusal import EmptySlot, MissingInput, answer, failure, hide_foreign_paths, refusal
from .seams import Array, ModelConfig, Request, Response, read_manifest
from .user_step import Inputs, Returned, Served, UserStep, rows_of

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL

# Asking Triton whether a request is cancelled takes 70 us: worth it where that saves far more.
SLOW_SECONDS = 0.005
SEARCH_SECONDS = 1.0  # for the row that a step fails at


T = TypeVar("T")


class TritonPythonModel:
    """The class that Triton's Python backend loads, one object for each instance."""

    def initialize(self, args: Mapping[str, str]) -> None:
        config: ModelConfig = json.loads(args["model_config"])
        manifest, shared = read_manifest(VERSION_FOLDER)
        steps, self._answered = manifest["steps"], Answered()
        self._arrays = LIBRARIES[manifest["arrays"]](device(args))
        made = args, config, self._arrays, self._answered
        try:
            self._step: Served = FusedSteps(steps, *made) if shared else UserStep(steps[0], *made)
        except Exception as error:
            hide_foreign_paths(error)
            raise
        self._loop = asyncio.new_event_loop() if self._step.asynchronous else None
        self._max_rows = config["max_batch_size"]
        self._batched = self._max_rows > 0
        self._decoupled = config.get("model_transaction_policy", {}).get("decoupled", False)
        self._sequential = "sequence_batching" in config
        models = [model for step in steps for model in step["calls"].values()]
        # A call is part of the sequence of one request.
        in_sequence = self._sequential or any("sequence" in model for model in models)
        # A step leaves out an output of a whole call, which is then one request.
        is_whole = any("optional" in step for step in steps)
        self._joinable = self._batched and not in_sequence and not is_whole
        self._inputs = (
            [tensor["name"] for tensor in config["input"]]
            if shared
            else list(steps[0]["arguments"].values())
        )
        optional = any(tensor.get("optional") for tensor in config["input"])
        self._required = [
            tensor["name"]
            for tensor in config["input"]
            if optional and not tensor.get("optional") and not self._sequential
        ]
        self._lone = len(self._inputs) == 1 and self._joinable and not optional
        self._ragged = any(tensor.get("allow_ragged_batch") for tensor in config["input"])
        self._uniform = not optional and not any(
            int(dim) < 0 for tensor in config["input"] for dim in tensor["dims"]
        )
        self._calls = bool(models)
        policies = json.dumps(config.get("dynamic_batching", {}))
        self._delays = '"DELAY"' in policies  # a request is computed even after its time
        self._begun = 0.0
        self._paces: defaultdict[int, Pace] = defaultdict(Pace)
        self._slow = False

    def execute(self, requests: list[Request]) -> list[Response] | list[None] | None:
        self._begun = perf_counter()
        if self._decoupled:
            self._stream_all(requests)
            return None
        if self._loop:
            return self._side_by_side(self._answer_async, requests)
        if len(requests) == 1:
            return [self._answer(requests[0])]
        if not self._joinable:
            return [self._answer(request) for request in requests]
        start, pace = self._begun, self._paces[len(requests).bit_length()]
        together = pace.together()
        responses = (
            self._answer_together(requests)
            if together
            else [self._answer(request) for request in requests]
        )
        seconds = perf_counter() - start
        pace.learn(together, seconds / len(requests))
        pause = pace.pause(seconds) if together and len(requests) < self._max_rows else 0
        return self._send_early(pause, requests, responses) if pause else responses

    def _send_early(
        self, pause: float, requests: list[Request], responses: list[Response]
    ) -> list[None]:
        """Send the responses now, then let Triton collect requests for a while."""
        for request, response in zip(requests, responses, strict=True):
            request.get_response_sender().send(response, FINAL)
        sleep(pause)
        return [None] * len(requests)

    def finalize(self) -> None:
        if self._loop:
            self._loop.close()

    def _side_by_side(
        self, answer: Callable[[Request], Coroutine[None, None, T]], requests: list[Request]
    ) -> list[T]:
        """Run async steps for many requests at once, instead of joining the requests."""

        async def answers() -> list[T]:
            return await asyncio.gather(*map(answer, requests))

        assert self._loop is not None
        together = self._loop.create_task(answers())
        while True:
            try:
                return self._loop.run_until_complete(together)
            except (SystemExit, KeyboardInterrupt):  # of a step's own task: it stops the loop too
                if together.done():
                    raise

    def _answer(self, request: Request) -> Response:
        """Answer one request, with few function calls: after a wait, each of them takes a microsecond."""
        if self._slow and (given_up := self._refuse_given_up(request)):
            return given_up
        if self._calls:
            self._answered.of_step = Waiting([request], self._begun)
        inputs: Inputs = []
        start = perf_counter()
        try:
            if self._lone:
                inputs = [self._arrays.read(request.inputs()[0])]
                returned, rows = self._step.start(inputs), rows_of(inputs)
            else:
                inputs = self._read(request)
                returned, rows = self._step.start(inputs, self._first(request)), self._rows(inputs)
            outputs = self._step.check_outputs(returned, rows)
            return answer(list(map(self._arrays.tensor, outputs, outputs.values())))
        # Here and below: an exit, an interrupt or a panic of Rust would fail the whole batch.
        except BaseException as error:
            return refusal(self._step, error, lambda: self._find_faulty_row(inputs))
        finally:
            seconds = perf_counter() - start
            self._slow = seconds > SLOW_SECONDS
            self._step.count(seconds)

    def _refuse_given_up(self, request: Request) -> Response | None:
        """Return the response to a request that, as far as Triton tells, nobody waits for."""
        timeout_us = 0 if self._delays else request.timeout()
        if timeout_us and perf_counter() - self._begun > timeout_us / 1e6:
            return failure("Request timeout expired", pb_utils.TritonError.UNAVAILABLE)
        if request.is_cancelled():
            return failure("cancelled", pb_utils.TritonError.CANCELLED)
        return None

    def _find_faulty_row(self, inputs: Inputs) -> int | None:
        """Return the first row that the step fails at alone.

        Return None if there is none, or if to find it takes too long.
        """
        rows, end = rows_of(inputs) or 0, perf_counter() + SEARCH_SECONDS
        if rows < 2 or self._calls or not self._joinable:
            return None
        for row in range(rows):
            try:
                self._step.start([a if a is None else a[row : row + 1] for a in inputs])
            except BaseException:
                return row
            if perf_counter() > end:
                return None
        return None

    async def _answer_async(self, request: Request) -> Response:
        if self._slow and (given_up := self._refuse_given_up(request)):
            return given_up
        start = perf_counter()
        if self._calls:
            self._answered.of_task.set(Waiting([request], self._begun))
        try:
            inputs = self._read(request)
            outputs = await self._step.start(inputs, self._first(request))
            return self._response(self._step.check_outputs(outputs, self._rows(inputs)))
        except BaseException as error:
            return refusal(self._step, error)
        finally:
            seconds = perf_counter() - start
            self._slow = seconds > SLOW_SECONDS
            self._step.count(seconds)

    def _answer_together(self, requests: list[Request]) -> list[Response]:
        """Answer requests whose rows have the same shapes by one call or, if it fails, by a call for each."""
        if self._slow and any(map(self._refuse_given_up, requests)):
            return [self._answer(request) for request in requests]
        if self._lone and not self._ragged:
            read = self._arrays.read
            return self._answer_group(
                requests, [[read(request.inputs()[0]) for request in requests]]
            )
        try:
            inputs = [self._read(request) for request in requests]
        except MissingInput:
            return [self._answer(request) for request in requests]
        if self._uniform:
            return self._answer_group(requests, list(zip(*inputs, strict=True)))
        responses: dict[int, Response] = {}
        for group in self._iter_groups(inputs):
            columns = list(zip(*(inputs[i] for i in group), strict=True))
            members = self._answer_group([requests[i] for i in group], columns)
            responses.update(zip(group, members, strict=True))
        return [responses[i] for i in range(len(requests))]

    def _answer_group(
        self, requests: list[Request], columns: Sequence[Sequence[Any]]
    ) -> list[Response]:
        """Answer a group by one call. `columns` has for each input the arrays of all requests."""
        if len(requests) == 1:
            return [self._answer(requests[0])]
        start, step, join = perf_counter(), self._step, self._arrays.join
        if self._calls:
            self._answered.of_step = Waiting(requests, self._begun)
        try:
            rows = [len(array) for array in next(c for c in columns if c[0] is not None)]
            inputs = [None if column[0] is None else join(column) for column in columns]
            returned = step.start(inputs)
            seconds = perf_counter() - start
            self._slow = seconds / len(requests) > SLOW_SECONDS
            step.count(seconds)
            return self._shares(step.check_outputs(returned, sum(rows)), rows)
        except BaseException:
            return [self._answer(request) for request in requests]

    def _read(self, request: Request) -> Inputs:
        arrays = {tensor.name(): self._arrays.read(tensor) for tensor in request.inputs()}
        for name in self._required:
            if name not in arrays:
                raise MissingInput(f"input '{name}' is missing")
        return [arrays.get(name) for name in self._inputs]

    def _rows(self, inputs: Inputs) -> int | None:
        """Return the number of rows, or None without a batch dimension, or without an input to count."""
        return rows_of(inputs) if self._batched else None

    def _iter_groups(self, inputs: list[Inputs]) -> Iterable[list[int]]:
        """Group the requests by the shapes of their rows."""
        groups: defaultdict[object, list[int]] = defaultdict(list)
        for i, arrays in enumerate(inputs):
            shapes = tuple(None if array is None else array.shape[1:] for array in arrays)
            nothing = all(shape is None for shape in shapes)
            groups[i if nothing else shapes].append(i)
        return groups.values()

    def _first(self, request: Request) -> tuple[SequencePosition, ...]:
        """Return the arguments that the step takes before its inputs."""
        if not self._sequential:
            return ()
        position = position_of(request)
        if not position.id:
            raise EmptySlot
        return (position,)

    def _response(self, outputs: Mapping[str, Array]) -> Response:
        return answer(list(map(self._arrays.tensor, outputs, outputs.values())))

    def _shares(self, outputs: Mapping[str, Array], rows: list[int]) -> list[Response]:
        """Share out the rows of the outputs: one response for each request, in order."""
        tensor = self._arrays.tensor
        spans = list(pairwise(accumulate(rows, initial=0)))
        columns = [
            [tensor(name, array[start:end]) for start, end in spans]
            for name, array in outputs.items()
        ]
        return [answer(list(tensors)) for tensors in zip(*columns, strict=True)]

    def _stream_all(self, requests: list[Request]) -> None:
        """Stream the requests one after the other, or side by side if the step is async."""
        if self._loop:
            self._side_by_side(self._stream_async, requests)
            return
        for request in requests:
            self._stream(request)

    def _refuse_stream(self, request: Request) -> bool:
        """Refuse a request that is given up before its first response, and return whether it was."""
        given_up = self._refuse_given_up(request) if self._slow else None
        if given_up:
            request.get_response_sender().send(given_up, FINAL)
        return given_up is not None

    def _stream(self, request: Request) -> None:
        if self._refuse_stream(request):
            return
        self._answered.of_step = Waiting([request], self._begun)
        with self._open_sender(request) as send:
            for returned in self._generator(request, "__next__"):
                if not send(returned):
                    break

    async def _stream_async(self, request: Request) -> None:
        if self._refuse_stream(request):
            return
        self._answered.of_task.set(Waiting([request], self._begun))
        with self._open_sender(request) as send:
            async for returned in self._generator(request, "__anext__"):
                if not send(returned):
                    break

    def _generator(self, request: Request, method: str) -> Returned:
        returned = self._step.start(self._read(request), self._first(request))
        if not hasattr(returned, method):
            raise StepError(f"returned {type(returned).__name__}; a decoupled step yields mappings")
        return returned

    @contextmanager
    def _open_sender(self, request: Request) -> Iterator[Callable[[Returned], bool]]:
        """Yield a function that sends one response of a decoupled step, and returns whether the client wants more."""
        sender, start = request.get_response_sender(), perf_counter()
        asked = start

        def send(returned: Returned) -> bool:
            nonlocal asked
            sender.send(self._response(self._step.check_outputs(returned, None)))
            if perf_counter() - asked < SLOW_SECONDS:
                return True
            asked = perf_counter()
            return not sender.is_cancelled()

        try:
            yield send
        except BaseException as error:
            sender.send(refusal(self._step, error))
        finally:
            seconds = perf_counter() - start
            self._slow = seconds > SLOW_SECONDS
            self._step.count(seconds)
            sender.send(flags=FINAL)
