"""Metrics of requests for Prometheus, and their spans of OpenTelemetry."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache

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
from starlette.types import Scope

from triton_ensemble.serve.local.traces import is_exported

QUIET = {"/healthz", "/metrics", "/readyz"}
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

REQUESTS = Counter("gateway_requests", "Requests by route and status", ["route", "status"])
DURATION = Histogram(
    "gateway_request_seconds", "From first byte to answer", ["route"], buckets=SECONDS
)
ROWS = Counter("gateway_rows", "Rows that were answered or refused", ["outcome"])
ANSWERED, REFUSED = map(ROWS.labels, ("answered", "refused"))
COMPUTING = Gauge("gateway_computing", "Requests at Triton", multiprocess_mode="livesum")
WAITING = Gauge("gateway_waiting", "Requests that wait for a place", multiprocess_mode="livesum")

# Exported where OTEL_EXPORTER_OTLP_ENDPOINT is set, as are FastAPI's metrics; logs could have what requests hold.
EXPORTED = is_exported()
TRACER = trace.get_tracer("triton_ensemble.gateway")
TELEMETRY: TelemetryConfig = {
    "auto_configure": EXPORTED,
    "tracing": EXPORTED,
    "metrics": EXPORTED,
    "logs": False,
    "operation_spans": False,
    "exclude": lambda scope: scope["path"] in QUIET,
}


@cache
def _metrics_of(route: str, status: int) -> tuple[Counter, Histogram]:
    return REQUESTS.labels(route, status), DURATION.labels(route)


def count(route: str, status: int, seconds: float) -> None:
    """Count a request."""
    requests, duration = _metrics_of(route, status)
    requests.inc()
    duration.observe(seconds)


def name_span(scope: Scope, path: str) -> None:
    """Give the span and the metrics of a request the route that FastAPI does not see."""
    if telemetry := scope.get("fastapi.telemetry"):
        telemetry.route = path
        trace.get_current_span().update_name(f"{scope['method']} {path}")


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
        if (
            getattr(error, "status", 500) >= 500
        ):  # a refusal of what is sent is not an error of Triton
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
