"""Spans that the gateway exports, as a collector of OpenTelemetry gets them by OTLP."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from gateway_service import gateway, metric, stream
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from support import ROOT, SOURCES, Generate, Server, run, serve, step, succeed

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
QUICK = {"OTEL_BSP_SCHEDULE_DELAY": "100"}  # ms until spans are sent


class Collector(ThreadingHTTPServer):
    """What is sent to /v1/traces, span by span, and the paths of all that is sent."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.paths: set[str] = set()
        super().__init__(("127.0.0.1", 0), _Received)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def wait_for(self, name: str) -> dict[str, Any]:
        """Return the spans by name once there is one of this name."""
        end = time.monotonic() + 20
        while name not in (found := {span.name: span for span in self.spans}):
            assert time.monotonic() < end, list(found)
            time.sleep(0.05)
        return found


class _Received(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.paths.add(self.path)
        if self.path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    self.server.spans += scope.spans
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments: object) -> None: ...


@contextmanager
def collecting() -> Iterator[Collector]:
    with Collector() as collector:
        Thread(target=collector.serve_forever, daemon=True).start()
        yield collector
        collector.shutdown()


def is_error(span: Any) -> bool:
    return bool(span.status.code == Status.STATUS_CODE_ERROR)


@pytest.fixture(scope="module")
def server(generate: Generate) -> Iterator[Server]:
    tensors = {"INPUT": "FP32[1]", "OUTPUT": "FP32[1]"}
    steps = [step("echo", ["INPUT"], ["OUTPUT"])]
    project = generate.complete(
        project_name="traced", tensors=tensors, steps=steps, extras=["gateway"]
    )
    with serve(project) as server:
        yield server


@pytest.mark.slow
def test_a_request_is_a_trace_of_whoever_sent_it(server: Server) -> None:
    with collecting() as collector:
        settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **QUICK}
        with gateway(server.project, server.urls["grpc"], **settings) as service:
            trace = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            assert service.ask("GET", "/readyz").status == 200
            assert service.post({"INPUT": [[1.0]]}, **trace).status == 200
            spans = collector.wait_for("POST /predict")
    assert spans.keys() == {"POST /predict", "queue", "triton", "answer"}
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    request = spans.pop("POST /predict")
    assert request.parent_span_id.hex() == PARENT
    assert {span.parent_span_id for span in spans.values()} == {request.span_id}
    assert "/v1/logs" not in collector.paths  # they could have what requests hold


WORDS = """
import numpy as np
from triton_step import InvalidRequest


class Step:
    def __init__(self, context):
        pass

    def __call__(self, COUNT):
        yield {"WORD": np.array(["a"], object)}
        if COUNT[0] < 0:
            raise InvalidRequest("COUNT: is below 0; send a number")
        if COUNT[0] > 9:
            raise RuntimeError("too many")
"""


@pytest.mark.slow
def test_a_stream_is_recorded_and_counts_as_it_ends(generate: Generate) -> None:
    """A failure after the first event is none of its status, which is sent by then."""
    project = stream(generate, WORDS)
    with collecting() as collector, serve(project) as server:
        settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **QUICK}
        with gateway(project, server.urls["grpc"], **settings) as service:
            trace = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            for count, status in ((1, 200), (-1, 400), (10, 500)):
                collector.spans.clear()
                answer = service.post({"COUNT": [count]}, **trace)
                assert (answer.status, b"event: error" in answer.content) == (200, status != 200)
                spans = collector.wait_for("POST /predict")
                assert spans["triton"].parent_span_id == spans["POST /predict"].span_id
                assert is_error(spans["triton"]) == (status == 500)
                labels = {"route": "/predict", "status": str(status)}
                assert metric(service, "gateway_requests_total", **labels) == 1


def test_a_refusal_is_no_error_of_triton(server: Server) -> None:
    with collecting() as collector:
        settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **QUICK}
        with gateway(server.project, server.urls["grpc"], **settings) as service:
            assert service.post({"INPUT": [["a"]]}).status == 400
            spans = collector.wait_for("POST /predict")
    assert not is_error(spans["triton"])
    assert not spans["triton"].events


@pytest.mark.slow
def test_nothing_is_sent_where_nobody_asks(server: Server) -> None:
    with (
        collecting() as collector,
        gateway(server.project, server.urls["grpc"], **QUICK) as service,
    ):
        assert service.post({"INPUT": [[1.0]]}).status == 200
        assert service.process.poll() is None
    assert not collector.paths


@pytest.mark.slow
def test_an_endpoint_that_is_empty_is_none() -> None:
    """As compose has it where nobody wrote one."""
    code = "from triton_ensemble.gateway.observe import EXPORTED; print(EXPORTED)"
    for endpoint, exported in {"": "False", "http://127.0.0.1:4318": "True"}.items():
        given = {"PYTHONPATH": str(SOURCES), "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        assert succeed(run(sys.executable, "-c", code, cwd=ROOT, **given)).strip() == exported
