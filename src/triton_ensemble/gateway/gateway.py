"""What a worker does with a request: reads it, waits for a place, asks Triton, answers."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from types import ModuleType
from typing import Any

import anyio
from fastapi import FastAPI
from opentelemetry import propagate
from opentelemetry.context import Context
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Message, Send
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.client import Arrays
from triton_ensemble.gateway import answers, bodies, observe
from triton_ensemble.gateway.admission import Admission
from triton_ensemble.gateway.keys import Keys
from triton_ensemble.gateway.predict import Answer, Predictor
from triton_ensemble.gateway.readiness import Readiness
from triton_ensemble.gateway.refusal import Refusal, of_inference
from triton_ensemble.gateway.settings import Settings
from triton_ensemble.samples.files import Sample

URL = "grpc://127.0.0.1:8001"
LOG = logging.getLogger("gateway")
TRACE = ("traceparent", "tracestate")  # W3C's
TRACED = re.compile(r"[\x20-\x7e]{1,512}")  # other values fail a call by gRPC
# Of events: nginx would hold them back.
UNBUFFERED = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class Gateway:
    """A worker's connection to the Triton at TRITON_URL, its places and keys; `sample` is what readiness sends."""

    def __init__(self, client: ModuleType, settings: Settings, sample: Sample) -> None:
        self.keys = Keys(settings)
        self._client, self._settings = client, settings
        self.admission = Admission(settings)
        self._sample = sample
        self.state: dict[str, Any] = {}  # of the application

    @asynccontextmanager
    async def running(self, app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        """Hold the connection while the application runs; an open one would delay Triton's shutdown."""
        rows, shared = self._settings.max_rows, bool(self._settings.batch)
        if not self.keys.are_asked:
            LOG.warning("everybody may ask: there is no GATEWAY_API_KEYS_FILE")
        async with self._client.AsyncClient(os.environ.get("TRITON_URL") or URL) as connection:
            self._predictor = Predictor(self._client, connection, rows, shared=shared)
            made_up, inputs = self._sample.made_up, self._sample.inputs
            ask = self._predictor.first
            self._readiness = Readiness(lambda s: ask(inputs, s), self._client, made_up=made_up)
            gc.collect()
            gc.freeze()  # else each full collection walks through all modules, 14 ms here
            try:
                yield self.state
            finally:
                gc.unfreeze()

    @property
    def tensors(self) -> Any:
        """The module of the project's client that says what the pipeline takes and returns."""
        return self._client.tensors

    async def ready(self) -> Response:
        """Answer 200 where the pipeline answers an inference, else 503."""
        if problem := await self._readiness.problem():
            raise Refusal(503, f"the pipeline does not answer: {problem}", retry_after_s=1)
        return JSONResponse({"status": "ready"})

    async def statistics(self, request: Request) -> Response:
        """Answer what Triton has counted of each model; Refusal 401, or 503 where it does not say."""
        self.keys.check(request)
        try:
            return JSONResponse(await self._predictor.statistics())
        except InferenceServerException:
            raise Refusal(503, "Triton does not say what its models did") from None

    async def predict(self, request: Request) -> Response:
        """Answer a request; Refusal where it gets no outputs."""
        async with self._received(request) as (given, names), _unless_gone(request):
            answer = await self._answer(request, given)
        with observe.span("answer"):
            if found := answers.image(answer, request.headers.get("accept", "")):
                return Response(found.content, media_type=found.kind)
            return Response(answers.as_json(answer, names), media_type="application/json")

    async def outputs(self, request: Request, inputs: Mapping[str, Any]) -> Arrays:
        """Return the outputs for inputs of one of the owner's routes; Refusal where a row gets none."""
        answer = await self._answer(request, inputs)
        with self._translated(request):
            for error in answer.errors.values():
                raise error
        return answer.outputs

    async def _answer(self, request: Request, inputs: Mapping[str, Any]) -> Answer:
        """Return what Triton answers; Refusal where no row gets outputs."""
        async with self.admission.place():
            with observe.span("triton") as context, self._translated(request):
                options = _options(request, context)
                answer = await self._predictor.answer(inputs, self._settings.timeout_s, options)
                refused = len(answer.errors)
                request.state.seen = {"rows": answer.rows, "refused": refused}
                observe.ROWS.labels("answered").inc(answer.rows - refused)
                observe.ROWS.labels("refused").inc(refused)
                if not answer.outputs:
                    raise next(iter(answer.errors.values()))
                return answer

    async def stream(self, request: Request) -> Response:
        """Answer a request to a decoupled pipeline by server-sent events, one for each of its answers."""
        return await self.by_events(self._events(request))

    async def by_events(self, events: AsyncGenerator[bytes, None]) -> Response:
        """Answer by server-sent events; Refusal where the first raises it."""
        first = await anext(events, b"")  # a request that is refused has a status of its own
        return _Events(first, events, self._settings.timeout_s)

    async def _events(self, request: Request) -> AsyncGenerator[bytes, None]:
        count = 0
        async with self._received(request) as (given, _):
            try:
                async with aclosing(self.streamed(request, given)) as stream:
                    async for outputs in stream:
                        count += 1
                        yield b"data: " + answers.outputs_as_json(outputs) + b"\n\n"
            except Refusal as refusal:
                if not count:
                    raise
                request.state.failed = refusal.status
                yield b"event: error\ndata: " + refusal.body(request.state.id) + b"\n\n"
            finally:
                request.state.seen = {"answers": count}

    async def streamed(
        self, request: Request, inputs: Mapping[str, Any]
    ) -> AsyncGenerator[Arrays, None]:
        """Yield the answers of a decoupled pipeline; Refusal where it fails."""
        async with self.admission.place():
            with observe.span("triton") as context, self._translated(request):
                options = _options(request, context)
                stream = self._predictor.stream(inputs, self._settings.timeout_s, options)
                async with aclosing(stream):
                    async for outputs in stream:
                        yield outputs

    @asynccontextmanager
    async def _received(self, request: Request) -> AsyncIterator[bodies.Given]:
        """Yield what a request with a key has sent, while it counts as memory."""
        self.keys.check(request)
        length = request.headers.get("content-length")
        with self.admission.memory(request.receive, length) as receive:
            yield await self._read(Request(request.scope, receive))

    async def _read(self, request: Request) -> bodies.Given:
        try:
            with anyio.fail_after(self._settings.body_s):
                return await bodies.inputs(request, self._client, self._settings.max_rows)
        except TimeoutError:
            raise Refusal(408, f"the request did not come in {self._settings.body_s:g} s") from None

    @contextmanager
    def _translated(self, request: Request) -> Iterator[None]:
        """Raise the client's errors as refusals; those that are not the request's are logged."""
        try:
            yield
        except self._client.InferenceError as error:
            if not isinstance(error, self._client.InvalidInput):
                LOG.error("%s: %s", request.state.id, error)
            raise of_inference(error, self._client) from None


def _options(request: Request, context: Context | None) -> dict[str, Any]:
    """Return what Triton learns of a request: its id, and the trace that it is a part of."""
    given = {name: request.headers.get(name, "") for name in TRACE}
    trace = {name: value for name, value in given.items() if TRACED.fullmatch(value)}
    propagate.inject(trace, context)  # where spans are exported, Triton's belong to that one
    return {"request_id": request.state.id, "headers": trace}


class _Events(StreamingResponse):
    """Server-sent events, which end where one is not read in time: they hold a place."""

    def __init__(self, first: bytes, events: AsyncGenerator[bytes, None], read_s: float) -> None:
        super().__init__(_after(first, events), 200, UNBUFFERED, "text/event-stream")
        self._events, self._read_s = events, read_s

    async def stream_response(self, send: Send) -> None:
        async def in_time(message: Message) -> None:
            with anyio.fail_after(self._read_s):
                await send(message)

        async with aclosing(self._events):
            with suppress(TimeoutError):
                await super().stream_response(in_time)


async def _after(first: bytes, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for event in events:
        yield event


@asynccontextmanager
async def _unless_gone(request: Request) -> AsyncIterator[None]:
    """Cancel what is under way where who asked leaves, and Triton's request with it."""
    with anyio.CancelScope() as scope:
        gone = asyncio.ensure_future(request.receive())
        gone.add_done_callback(lambda _: scope.cancel())
        try:
            yield
        finally:
            gone.cancel()
    if scope.cancelled_caught:
        raise Refusal(observe.GONE, "who asked has left")
