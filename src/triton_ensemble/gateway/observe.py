"""What is seen of requests: ids, a line of JSON each, metrics, and spans of OpenTelemetry."""

from __future__ import annotations

import logging
import os
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

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

from triton_ensemble.gateway.refusal import Refusal

ID = re.compile(r"[\x21-\x7e]{1,128}")
FAILED = Refusal(500, "the gateway failed at this request; the log says why, by its id")
GONE = 499  # who asked left before the answer, as nginx has it
QUIET = {"/healthz", "/metrics", "/readyz"}
LOG = logging.getLogger("gateway.access")
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

REQUESTS = Counter("gateway_requests", "Requests by route and status", ["route", "status"])
DURATION = Histogram(
    "gateway_request_seconds", "From first byte to answer", ["route"], buckets=SECONDS
)
ROWS = Counter("gateway_rows", "Rows that were answered or refused", ["outcome"])
COMPUTING = Gauge("gateway_computing", "Requests at Triton", multiprocess_mode="livesum")
WAITING = Gauge("gateway_waiting", "Requests that wait for a place", multiprocess_mode="livesum")

# Exported where OTEL_EXPORTER_OTLP_ENDPOINT is set, as are FastAPI's metrics; logs could have what requests hold.
TRACER = trace.get_tracer("triton_ensemble.gateway")
TELEMETRY: TelemetryConfig = {
    "auto_configure": True,
    "logs": False,
    "operation_spans": False,
    "exclude": lambda scope: scope["path"] in QUIET,
}
EXPORTED = any(value for name, value in os.environ.items() if name.startswith("OTEL_EXPORTER_OTLP"))

Scope = MutableMapping[str, Any]
Call = Callable[[Any], Awaitable[None]]


class Observed:
    """ASGI middleware: gives each request an id, that of X-Request-ID if it has one, counts it and logs a line without its content."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Call) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = id_of(Headers(scope=scope).get("x-request-id", ""))
        scope.setdefault("state", {})["id"] = request_id
        began, status, size = time.perf_counter(), GONE, 0

        async def counted(message: MutableMapping[str, Any]) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, counted)
        except Exception:
            if status != GONE:
                raise  # it has begun to answer
            LOG.exception("%s: failed", request_id)
            await FAILED.response(request_id)(scope, receive, counted)
        finally:
            status = scope["state"].get("failed", status)  # of a stream, which has begun as a 200
            line = {"id": request_id, "method": scope["method"], "path": scope["path"]}
            line |= {"status": status, "bytes": size, **scope["state"].get("seen", {})}
            record(getattr(scope.get("route"), "path", "other"), time.perf_counter() - began, line)


def id_of(given: str) -> str:
    """Return the id of a request that was given one, or none."""
    return given if ID.fullmatch(given) else uuid.uuid4().hex


def record(route: str, seconds: float, line: dict[str, Any]) -> None:
    """Count a request, and log the line: id, method, path, status, and what else there is of it."""
    REQUESTS.labels(route, line["status"]).inc()
    DURATION.labels(route).observe(seconds)
    if route not in QUIET or line["status"] >= 400:
        LOG.info(orjson.dumps({**line, "ms": round(seconds * 1000, 1)}).decode())


def span(name: str) -> AbstractContextManager[Context | None]:
    """Return the context of a part of the request, for what belongs to it; one that nobody records is none, and no work."""
    return _recorded(name) if trace.get_current_span().is_recording() else nullcontext()


@contextmanager
def _recorded(name: str) -> Iterator[Context]:
    """Record a span. It is not the current one: that of a stream ends in another task than it begins in."""
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
