"""The traces that requests leave: ids, a line of JSON each, metrics, and spans of OpenTelemetry."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from random import Random

import orjson
from fastapi.telemetry import TelemetryConfig
from opentelemetry import trace
from opentelemetry.context import Context
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from triton_ensemble.gateway.refusal import Refusal
from triton_ensemble.server.traces import is_exported

ID = re.compile(r"[\x21-\x7e]{1,128}")
IDS = Random()  # its own: a route may seed the one of the module
FAILED = Refusal(500, "the gateway failed at this request; the log says why, by its id")
GONE = 499  # who asked left before the answer, as nginx has it
QUIET = {"/healthz", "/metrics", "/readyz"}
ROUTES = ("classify", "completions", "embeddings", "models", "rerank")
OPENAI = ("/v2/rerank", *(f"/v1/{route}" for route in ROUTES))  # whose errors have another form
LOG = logging.getLogger("gateway.access")
PATH_CHARS = 256  # of a path in the log
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

REQUESTS = Counter("gateway_requests", "Requests by route and status", ["route", "status"])
DURATION = Histogram(
    "gateway_request_seconds", "From first byte to answer", ["route"], buckets=SECONDS
)
ROWS = Counter("gateway_rows", "Rows that were answered or refused", ["outcome"])
ANSWERED, REFUSED = map(ROWS.labels, ("answered", "refused"))
COMPUTING = Gauge("gateway_computing", "Requests at Triton", multiprocess_mode="livesum")
WAITING = Gauge("gateway_waiting", "Requests that wait for a place", multiprocess_mode="livesum")


@cache
def _metrics_of(route: str, status: int) -> tuple[Counter, Histogram]:
    return REQUESTS.labels(route, status), DURATION.labels(route)


# Exported where OTEL_EXPORTER_OTLP_ENDPOINT is set, as are FastAPI's metrics; logs could have what requests hold.
TRACER = trace.get_tracer("triton_ensemble.gateway")
TELEMETRY: TelemetryConfig = {
    "auto_configure": True,
    "logs": False,
    "operation_spans": False,
    "exclude": lambda scope: scope["path"] in QUIET,
}
EXPORTED = is_exported()


class Asked:
    """A request as it is observed: its headers, its id (X-Request-ID if it has one), and when it began."""

    def __init__(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        self.method, self.path, self.headers = method, path[:PATH_CHARS], headers
        is_model = method == "GET" and "/v1/models/" in path
        self.is_openai = is_model or path.endswith(OPENAI)
        given = headers.get("x-request-id", "")
        self.id = given if ID.fullmatch(given) else f"{IDS.getrandbits(128):032x}"
        self.seen: dict[str, object] = {}  # what else the log says of it
        self.has_key: bool | None = None  # once its key has been compared
        self.failed: int | None = None  # the status of a stream that failed after it began as a 200
        self._began = time.perf_counter()

    def record(self, route: str, status: int, size: int) -> None:
        """Count the request, and log a line without its content: id, method, path, status, and what else was seen."""
        seconds, status = time.perf_counter() - self._began, self.failed or status
        requests, duration = _metrics_of(route, status)
        requests.inc()
        duration.observe(seconds)
        if route not in QUIET or status >= 400:
            line = {"id": self.id, "method": self.method, "path": self.path, "status": status}
            more = {"bytes": size, **self.seen, "ms": round(seconds * 1000, 1)}
            text = orjson.dumps(line | more).decode()
            # LOG.info would look for the line of code that logs, which takes as long as the rest.
            LOG.handle(LOG.makeRecord(LOG.name, logging.INFO, "", 0, text, (), None))

    def failure(self) -> Response:
        """Return the answer to a request that the gateway failed at, and log the error that is handled."""
        LOG.exception("%s: failed", self.id)
        return self.refuse(FAILED)

    def refuse(self, refusal: Refusal) -> Response:
        """Return what answers the request where it gets no outputs."""
        body = refusal.body(self.id, as_openai=self.is_openai)
        return Response(body, refusal.status, refusal.headers, media_type="application/json")


class Observed:
    """ASGI middleware: counts and logs each request, and answers requests that fail."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        asked = state.get("asked") or Asked(scope["method"], scope["path"], Headers(scope=scope))
        state.update(asked=asked, id=asked.id)
        status, size = GONE, 0

        async def counted(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = asked.id
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, counted)
        except Exception:
            if status != GONE:
                raise  # it has begun to answer
            await asked.failure()(scope, receive, counted)
        finally:
            asked.record(getattr(scope.get("route"), "path", "other"), status, size)


def span(name: str) -> AbstractContextManager[Context | None]:
    """Return a context manager that records a part of the request and yields its context, or None if nothing records it."""
    is_recorded = EXPORTED and trace.get_current_span().is_recording()
    return _record_span(name) if is_recorded else nullcontext()


@contextmanager
def _record_span(name: str) -> Iterator[Context]:
    """Record a span. It is not the current one, because the span of a stream ends in another task than it begins in."""
    span = TRACER.start_span(name)
    try:
        yield trace.set_span_in_context(span)
    except Exception as error:
        if not (isinstance(error, Refusal) and error.status < 500):
            span.record_exception(error)
            span.set_status(trace.StatusCode.ERROR, str(error))
        raise
    finally:
        span.end()


def metrics() -> bytes:
    """Return the metrics of all workers, as Prometheus reads them."""
    if not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        return generate_latest()
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
