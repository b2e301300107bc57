"""The work of a worker on a request: read it, wait for a place, ask Triton, answer."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from functools import partial

import anyio
from opentelemetry import propagate
from opentelemetry.context import Context
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.facts.client import Arrays, Options, Package
from triton_ensemble.gateway import answers, bodies, observe
from triton_ensemble.gateway.admission import Admission, Body
from triton_ensemble.gateway.call import Call, Keys
from triton_ensemble.gateway.predict import (
    Answer,
    Predictor,
    Readiness,
    count,
    grpc_connection,
)
from triton_ensemble.gateway.refusal import Refusal, make_refusal
from triton_ensemble.gateway.settings import Settings
from triton_ensemble.gateway.triton_http import TritonHttp
from triton_ensemble.testing.files import Sample

LOG = logging.getLogger("gateway")
TRACE = ("traceparent", "tracestate")  # W3C's
TRACED = re.compile(r"[\x20-\x7e]{1,512}")  # other values fail a call by gRPC
# Of events: nginx would hold them back.
UNBUFFERED = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class Gateway:
    """A worker's connection to the Triton at TRITON_URL, with its places and keys.

    `sample` is the request that readiness sends.
    """

    def __init__(self, client: Package, settings: Settings, sample: Sample) -> None:
        self.keys = Keys(settings)
        self.tensors = client.tensors  # what the pipeline takes and returns
        self._client, self._settings = client, settings
        self.admission = Admission(settings)
        self._raw = bodies.raw_input(client.tensors)
        inputs = client.tensors.INPUTS.values()
        self._max_rows = settings.sequence_rows if self.tensors.SEQUENTIAL else settings.max_rows
        self._takes_numbers = any(tensor.datatype != "BYTES" for tensor in inputs)
        self._sample = sample
        self._late = Refusal(408, f"the request did not come in {settings.body_s:g} s")

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Hold the connection only while the application runs.

        A connection that stays open would delay Triton's shutdown.
        """
        anyio.current_time()  # so that it is imported whole while files can be opened
        if not self.keys.are_asked:
            LOG.warning("everybody may ask: there is no GATEWAY_API_KEYS_FILE")
        if recorder := self._client.runtime.recorder.find_recorder():
            LOG.warning("TRITON_RECORD: requests are recorded in %s", recorder.folder)
        url = os.environ.get("TRITON_URL") or self.tensors.URL
        http = TritonHttp(url, self._client) if url.startswith("http") else None
        self._counting = http or grpc_connection(self._client, url)
        async with http or self._client.AsyncClient(url, record="") as connection:
            shared = bool(self._settings.batch)
            self._predictor = Predictor(self._client, connection, shared=shared, recorder=recorder)
            made_up, inputs = self._sample.made_up, self._sample.inputs
            ask = self._predictor.first
            self._readiness = Readiness(lambda s: ask(inputs, s), self._client, made_up=made_up)
            gc.collect()
            gc.freeze()  # else each full collection walks through all modules, 14 ms here
            try:
                yield
            finally:
                gc.unfreeze()
                await self._counting.close()

    async def ready(self) -> Response:
        """Answer 200 if the pipeline answers an inference, and otherwise 503."""
        if problem := await self._readiness.problem():
            raise Refusal(503, f"the pipeline does not answer: {problem}", retry_after_s=1)
        return JSONResponse({"status": "ready"})

    async def statistics(self, request: Request) -> Response:
        """Answer what Triton has counted of each model.

        Raise Refusal 401 if the request lacks a known key, or 503 if Triton does not say.
        """
        self.keys.check(request.state.call)
        try:
            return JSONResponse(await count(self._counting))
        except InferenceServerException:
            raise Refusal(503, "Triton does not say what its models did") from None

    def admit(self, call: Call) -> Body:
        """Return what holds the body of a request to the pipeline.

        Raise Refusal if the request's head shows already that it gets no outputs.
        """
        self.admission.check()
        self.keys.check(call)
        bodies.check(call.headers, None if call.is_openai else self._raw)
        is_json = bodies.is_json(call.headers)
        return Body(self.admission, call.headers, is_json=is_json, is_typed=call.is_openai)

    def admit_other(self, call: Call) -> Body:
        """Return what holds the body of another request.

        It raises Refusal 401 for a long request without a key, because the route may need one.
        """
        return Body(
            self.admission,
            call.headers,
            is_json=bodies.is_json(call.headers),
            is_typed=True,
            is_own=True,
            is_stranger=not self.keys.are_in(call),
        )

    async def read(self, call: Call, body: Body) -> None:
        """Read the body of a request, or raise Refusal 400, 408, 413 or 429 if not all of it comes."""
        await call.read(body.add, self._settings.body_s, self._late)

    async def predict(self, call: Call, body: Body) -> Response:
        """Answer a request whose body is complete, or raise Refusal if it gets no outputs."""
        given, names = await self._inputs(call, body)
        answer = await self._answer(call, given)
        with observe.span("answer"):
            if found := answers.image(answer, call.headers.get("accept", "")):
                return Response(found.content, media_type=found.kind)
            write = partial(answers.format_json, answer, names)
            content = await answers.unless_large(answer.parts, write)
            return Response(content, media_type=answers.JSON)

    async def outputs(self, call: Call, inputs: Mapping[str, object]) -> Arrays:
        """Return the outputs for the inputs of an owner's route, or raise Refusal if a row gets none."""
        answer = await self._answer(call, inputs)
        with self._translate(call):
            for error in answer.errors.values():
                raise error
            return self._predictor.join(answer.parts)

    async def _answer(self, call: Call, inputs: Mapping[str, object]) -> Answer:
        """Return what Triton answers, or raise Refusal if no row gets outputs."""
        end = time.monotonic() + _read_timeout(call, self._settings.timeout_s)
        most = self._settings.openai_rows if call.is_openai else self._max_rows
        place = await self.admission.acquire()
        with place, observe.span("triton") as context, self._translate(call):
            options = _options(call, context)
            answer = await self._predictor.answer(inputs, most, end, options)
            refused = len(answer.errors)
            call.seen = {"rows": answer.rows, "refused": refused}
            observe.ANSWERED.inc(answer.rows - refused)
            if refused:
                observe.REFUSED.inc(refused)
            if not answer.parts:
                raise next(iter(answer.errors.values()))
            return answer

    async def stream(self, call: Call, body: Body) -> Response:
        """Answer a request to a decoupled pipeline by server-sent events, one for each of its answers."""
        return await self.send_events(call, self._events(call, body))

    async def send_events(self, call: Call, events: AsyncGenerator[bytes, None]) -> Response:
        """Answer by server-sent events, or raise Refusal if the first event raises it."""
        call.watch()
        first = await anext(events, b"")  # a request that is refused has a status of its own
        return _Events(first, events, self._settings.timeout_s)

    async def _events(self, call: Call, body: Body) -> AsyncGenerator[bytes, None]:
        count = 0
        given, _ = await self._inputs(call, body)
        try:
            async with aclosing(self.iter_answers(call, given)) as stream:
                async for outputs in stream:
                    count += 1
                    write = partial(answers.outputs_as_json, outputs)
                    content = await answers.unless_large([outputs], write)
                    yield b"data: " + content + b"\n\n"
        except Refusal as refusal:
            if not count:
                raise
            call.failed = refusal.status
            yield b"event: error\ndata: " + refusal.body(call.id) + b"\n\n"
        finally:
            call.seen["answers"] = count

    async def iter_answers(
        self, call: Call, inputs: Mapping[str, object]
    ) -> AsyncGenerator[Arrays, None]:
        """Yield the answers of a decoupled pipeline. Raise Refusal if it fails."""
        end = time.monotonic() + _read_timeout(call, self._settings.timeout_s)
        place = await self.admission.acquire()
        with place, observe.span("triton") as context, self._translate(call):
            options = _options(call, context)
            stream = self._predictor.stream(inputs, end - time.monotonic(), options)
            async with aclosing(stream):
                async for outputs in stream:
                    yield outputs

    async def _inputs(self, call: Call, body: Body) -> bodies.Given:
        content = body.content()
        given, names = bodies.inputs(call.headers, body, self._client, self._max_rows)
        if len(content) > bodies.SMALL_BYTES:
            await asyncio.sleep(0)  # others have their turn: to convert it takes as long again
        # NumPy takes true and false for numbers. Photographs are not searched for these words: that takes 1 us for each kB.
        if self._takes_numbers and (b"true" in content or b"false" in content):
            with self._translate(call):
                self._predictor.check(given)
        return given, names

    @contextmanager
    def _translate(self, call: Call) -> Iterator[None]:
        """Raise the client's errors as refusals.

        The log has the text of errors that the request did not cause.
        """
        try:
            yield
        except (self._client.InferenceError, TimeoutError) as error:
            if not isinstance(error, self._client.InvalidInput):
                call.seen["error"] = str(error)
            raise make_refusal(error, self._client) from None


def _options(call: Call, context: Context | None) -> Options:
    """Return what Triton learns of a request: its id, and the trace that it is a part of."""
    given = {name: call.headers[name] for name in TRACE if name in call.headers}
    trace = {name: value for name, value in given.items() if TRACED.fullmatch(value)}
    if context is not None:  # spans are exported, and Triton's belong to that one
        propagate.inject(trace, context)
    return {"request_id": call.id, "headers": trace}


def _read_timeout(call: Call, most_s: float) -> float:
    """Return the seconds that a request has, at most `most_s`.

    Raise Refusal 400 if its X-Request-Timeout is not above 0.
    """
    text = call.headers.get("x-request-timeout", str(most_s))
    try:
        given_s = 0.0 if "_" in text else float(text)  # which Python takes, and no other
    except ValueError:
        given_s = 0.0
    if not given_s > 0:
        raise Refusal(400, "X-Request-Timeout: write seconds, as 2.5")
    return min(given_s, most_s)


class _Events(StreamingResponse):
    """Server-sent events, which end if the client does not read one in time: they hold a place."""

    def __init__(self, first: bytes, events: AsyncGenerator[bytes, None], read_s: float) -> None:
        super().__init__(_prepend(first, events), 200, UNBUFFERED, "text/event-stream")
        self._events, self._read_s = events, read_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def in_time(message: Message) -> None:
            with anyio.fail_after(self._read_s):
                await send(message)

        async with aclosing(self._events):
            # In Starlette's tasks, the events of a client that leaves stay in memory until the collector runs.
            with suppress(TimeoutError):
                await self.stream_response(in_time)


async def _prepend(first: bytes, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for event in events:
        yield event
