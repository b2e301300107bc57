"""An in-process Triton with the calls of a connection over gRPC, so that gateway and client stay what they are."""

from __future__ import annotations

import asyncio
import ctypes
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

import numpy as np
import tritonserver
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped, unused-ignore]
from tritonclient.grpc import InferInput, InferResult, service_pb2  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

if not hasattr(tritonserver, "InferenceResponse"):  # it came with the end of the leak, core#421
    raise ImportError("tritonserver before 25.01 keeps a kilobyte of each answer for ever")

STATUSES = {  # of gRPC; other errors are Triton's own
    tritonserver.InvalidArgumentError: "INVALID_ARGUMENT",
    tritonserver.NotFoundError: "NOT_FOUND",
    tritonserver.UnavailableError: "UNAVAILABLE",
    tritonserver.UnsupportedError: "UNIMPLEMENTED",
}
START, END = 1, 2  # Triton's flags of a sequence


class Declared(NamedTuple):
    """The inputs of a model: type and shape by input, the optional ones, and the most rows."""

    inputs: dict[str, tuple[str, list[int]]]
    optional: frozenset[str]
    max_batch_size: int

    @classmethod
    def from_model(cls, model: Any) -> Declared:
        """Return what Triton says of a model that it has loaded."""
        metadata, config = model.metadata(), model.config()
        return cls(
            {one["name"]: (one["datatype"], one["shape"]) for one in metadata["inputs"]},
            frozenset(one["name"] for one in config["input"] if one["optional"]),
            config["max_batch_size"],
        )

    def problem(self, given: Sequence[InferInput]) -> str:
        """Return why Triton would refuse these inputs, or an empty text if it would not."""
        names = [one.name() for one in given]
        for name in self.inputs.keys() - self.optional - {*names}:
            return f"{name} is missing"
        for one in given:
            if one.name() not in self.inputs or names.count(one.name()) > 1:
                return f"{one.name()}: the inputs are {', '.join(self.inputs)}, each once"
            datatype, dims = self.inputs[one.name()]
            fits = len(dims) == len(one.shape()) and all(
                want in (-1, have) for want, have in zip(dims, one.shape(), strict=True)
            )
            if datatype != one.datatype() or not fits:
                return f"{one.name()} is {one.datatype()}{one.shape()}, not {datatype}{dims}"
        rows = {one.shape()[0] for one in given} if self.max_batch_size else {1}
        if len(rows) > 1 or not 0 < max(rows, default=1) <= max(self.max_batch_size, 1):
            return f"all inputs must have as many rows, from 1 to {self.max_batch_size}"
        return ""


class Connection:
    """A connection with the methods of tritonclient's `InferenceServerClient` that a project's client calls.

    It sends only checked requests: a request that the server itself refuses keeps its model loaded for ever
    (triton-inference-server/server#8755). `refused` counts the requests that it refuses all the same.
    """

    def __init__(self, server: Any) -> None:
        self._server = server
        self._declared: dict[str, Declared] = {}
        self._waiting: set[asyncio.Future[Any]] = set()
        self.refused = 0

    async def infer(
        self,
        model_name: str,
        inputs: Sequence[InferInput],
        *,
        client_timeout: float,
        outputs: object = (),
        headers: object = None,
        **options: Any,
    ) -> InferResult:
        """Return the answer to a request.

        Raise InferenceServerException with gRPC's status if there is none.
        """
        async with aclosing(self._answers(model_name, inputs, client_timeout, options)) as answers:
            async for answer in answers:
                return answer
        raise InferenceServerException("the model gave no answer", "StatusCode.INTERNAL")

    def stream_infer(
        self,
        inputs_iterator: AsyncIterator[Mapping[str, Any]],
        *,
        stream_timeout: float,
        headers: object = None,
    ) -> Stream:
        """Return the answers of a decoupled model to one request."""
        return Stream(self._stream(inputs_iterator, stream_timeout))

    async def is_model_ready(
        self, model_name: str, *, client_timeout: object = None, headers: object = None
    ) -> bool:
        """Return whether Triton has loaded a model."""
        return bool(self._server.model(model_name).ready())

    async def get_inference_statistics(self, *, client_timeout: object = None) -> Any:
        """Return what Triton has counted of all models."""
        counted = self._server.model("").statistics()
        return ParseDict(counted, service_pb2.ModelStatisticsResponse(), ignore_unknown_fields=True)

    async def close(self) -> None:
        """Leave the server as it is: it is the replica's."""

    async def _stream(
        self, requests: AsyncIterator[Mapping[str, Any]], timeout_s: float
    ) -> AsyncGenerator[tuple[InferResult, None], None]:
        async for request in requests:
            options = dict(request)
            name, inputs = options.pop("model_name"), options.pop("inputs")
            async with aclosing(self._answers(name, inputs, timeout_s, options)) as answers:
                async for answer in answers:
                    yield answer, None

    async def _answers(
        self, name: str, inputs: Sequence[InferInput], timeout_s: float, options: Mapping[str, Any]
    ) -> AsyncGenerator[InferResult, None]:
        loop = asyncio.get_running_loop()
        end, responses, is_over = (
            loop.time() + timeout_s,
            self._send_request(name, inputs, options),
            False,
        )
        try:
            while not is_over:
                response = await self._next(responses, end - loop.time())
                is_over = response.final
                if response.error:
                    raise _error(response.error)
                if response.outputs:
                    yield _result(response)
        finally:
            if not is_over:
                responses.cancel()

    def _send_request(
        self, name: str, inputs: Sequence[InferInput], options: Mapping[str, Any]
    ) -> Any:
        if problem := self._find_declared(name).problem(inputs):
            raise InferenceServerException(problem, "StatusCode.INVALID_ARGUMENT")
        starts, ends = options.get("sequence_start"), options.get("sequence_end")
        try:
            return self._server.model(name).async_infer(
                inputs={one.name(): _tensor(one) for one in inputs},
                request_id=options.get("request_id", ""),
                timeout=options.get("timeout") or 0,
                correlation_id=options.get("sequence_id"),
                flags=START * bool(starts) | END * bool(ends),
                output_memory_type="CPU",
                raise_on_error=False,
            )
        except tritonserver.TritonError as error:
            self.refused += 1
            raise _error(error) from None

    def _find_declared(self, name: str) -> Declared:
        try:
            if name not in self._declared:
                self._declared[name] = Declared.from_model(self._server.model(name))
        except tritonserver.TritonError as error:
            raise _error(error) from None
        return self._declared[name]

    async def _next(self, responses: Any, seconds: float) -> Any:
        """Return the next response. A client that leaves does not cancel it: the server must still hand it over."""
        waiting = asyncio.ensure_future(anext(responses))
        self._waiting.add(waiting)
        waiting.add_done_callback(self._waiting.discard)
        done, _ = await asyncio.wait({waiting}, timeout=max(seconds, 0))
        if not done:
            raise InferenceServerException("no answer in time", "StatusCode.DEADLINE_EXCEEDED")
        return waiting.result()


class Stream:
    """The answers to a request, as gRPC's stream has them: pairs of an answer and an error."""

    def __init__(self, answers: AsyncGenerator[tuple[InferResult, None], None]) -> None:
        self._answers = answers
        self._closing: asyncio.Future[None] | None = None

    def __aiter__(self) -> AsyncIterator[tuple[InferResult, None]]:
        return self._answers

    def cancel(self) -> None:
        """Tell Triton that nobody waits for more."""
        self._closing = asyncio.ensure_future(self._answers.aclose())


def _tensor(given: InferInput) -> Any:
    """Return an input as the server takes it: its bytes, which are contiguous, in place."""
    content = np.frombuffer(given._get_content() or b"", np.uint8)
    place = tritonserver.MemoryBuffer(
        content.ctypes.data, tritonserver.MemoryType.CPU, 0, content.size, content
    )
    return tritonserver.Tensor(
        getattr(tritonserver.DataType, given.datatype()), given.shape(), place
    )


def _result(response: Any) -> InferResult:
    """Return a response as tritonclient has it.

    It is a copy, because an array that lives on would keep the model loaded.
    """
    answer = service_pb2.ModelInferResponse(model_name=response.model.name)
    for name, tensor in response.outputs.items():
        shape = [int(size) for size in tensor.shape]
        answer.outputs.add(name=name, datatype=tensor.data_type.name, shape=shape)
        content = ctypes.string_at(tensor.data_ptr, tensor.size) if math.prod(shape) else b""
        answer.raw_output_contents.append(content)
    return InferResult(answer)


def _error(error: Any) -> InferenceServerException:
    # It and its response hold each other, and the request, for which its model would stay loaded.
    text, error.args, error.__traceback__ = error.args[0], (), None
    status = next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), "INTERNAL")
    return InferenceServerException(str(text), f"StatusCode.{status}")
