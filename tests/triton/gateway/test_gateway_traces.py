"""The traces of requests: spans, as a collector of OpenTelemetry gets them by OTLP, and lines of the log."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from gateway_service import gateway, metric, stream, wait_until
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from support import ROOT, SOURCES, Generate, Server, assert_logged, run, serve, step, succeed

from triton_ensemble.serve.local.local_triton import LocalTriton

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
QUICK = {"OTEL_BSP_SCHEDULE_DELAY": "100"}  # ms until spans are sent


class Collector(ThreadingHTTPServer):
    """The spans sent to /v1/traces, span by span, and the paths of all that is sent."""

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


def read_spans(body: bytes, kind: str) -> Iterator[Span]:
    """Yield the spans of an export. Triton's are in JSON, and their ids hexadecimal."""
    if kind != "application/json":
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                yield from scope.spans
        return
    for resource in json.loads(body)["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                yield Span(
                    name=span["name"],
                    trace_id=bytes.fromhex(span["traceId"]),
                    span_id=bytes.fromhex(span["spanId"]),
                    parent_span_id=bytes.fromhex(span.get("parentSpanId", "")),
                    start_time_unix_nano=int(span["startTimeUnixNano"]),
                )


def draw(spans: Sequence[Span], parent: bytes, indent: str = "") -> str:
    """Return the spans below a parent as a tree, in the order in which they began."""
    inner = [span for span in spans if span.parent_span_id == parent]
    inner.sort(key=lambda span: span.start_time_unix_nano)
    below = [draw(spans, span.span_id, f"{indent}  ") for span in inner]
    return "".join(f"{indent}{s.name}\n{text}" for s, text in zip(inner, below, strict=True))


class _Received(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.paths.add(self.path)
        if self.path == "/v1/traces":
            self.server.spans += read_spans(body, self.headers["Content-Type"])
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


def test_triton_and_each_step_are_in_the_trace(generate: Generate) -> None:
    """A request that nobody traces, as that of a health check, is not recorded."""
    page = (ROOT / "docs/gateway-reference.md").read_text()
    [tree] = re.findall(r"^```text\n(POST /predict\n.*?)^```", page, re.MULTILINE | re.DOTALL)
    tensors = {"INPUT": "FP32[1]", "MIDDLE": "FP32[1]", "OUTPUT": "FP32[1]"}
    steps = [
        step("first", ["INPUT"], ["MIDDLE"], fuse=False),
        step("second", ["MIDDLE"], ["OUTPUT"], fuse=False),
    ]
    project = generate.complete(
        project_name="pipeline", tensors=tensors, steps=steps, extras=["gateway"]
    )
    with collecting() as collector:
        settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **QUICK}
        words = [f"{name}={value}" for name, value in settings.items()]
        with (
            serve(project, *words) as server,
            gateway(project, server.urls["http"], **settings) as service,
        ):
            assert service.ask("GET", "/readyz").status == 200
            trace = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            assert service.post({"INPUT": [[1.0]]}, **trace).status == 200
            collector.wait_for("POST /predict")
            collector.wait_for("InferRequest")
    assert draw(collector.spans, bytes.fromhex(PARENT)) == tree
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}


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


FAILS = """
from triton_step import InvalidRequest


class Step:
    def __init__(self, context):
        pass

    def __call__(self, {name}):
        if {name}[0, 0] < 0:
            raise InvalidRequest("below 0; send a number")
        if {name}[0, 0] > 9:
            raise RuntimeError("too many")
        return {{"{output}": {name}}}
"""


def test_an_error_names_the_step_and_the_log_is_json(generate: Generate) -> None:
    tensors = {"INPUT": "FP32[1]", "MIDDLE": "FP32[1]", "OUTPUT": "FP32[1]"}
    steps = [step("first", ["INPUT"], ["MIDDLE"]), step("second", ["MIDDLE"], ["OUTPUT"])]
    project = generate(
        project_name="failing", tensors=tensors, steps=steps, max_batch_size=4, extras=["gateway"]
    )
    first, second = (FAILS.format(name=s["inputs"][0], output=s["outputs"][0]) for s in steps)
    (project / "steps/first.py").write_text(first.replace("> 9", "> 99").replace("< 0", "< -9"))
    (project / "steps/second.py").write_text(second)
    succeed(project.make("repository"))
    with (
        LocalTriton(project / "model_repository", "failing") as triton,
        gateway(project, triton.http_url) as service,
    ):
        refused = service.post({"INPUT": [[-1.0]]})
        failed = service.post({"INPUT": [[10.0]]}, X_Request_ID="mine")
        wait_until(lambda: '"id":"mine"' in service.log.read_text())
        log = service.log.read_text()
        assert_logged(triton.log, "RuntimeError: too many")
    assert (refused.status, failed.status) == (400, 500)
    assert "step second: below 0; send a number" in refused.json()["error"]
    lines = [json.loads(t) for t in log.splitlines() if t.startswith("{")]
    [line] = [line for line in lines if line["id"] == "mine"]
    assert (line["status"], "step second failed" in line["error"]) == (500, True)
