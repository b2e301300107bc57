"""Deadlines and limits of the gateway, and rows that fail, by a step that takes as long as it is told."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Event
from typing import Any

import pytest
from gateway_service import Answer, Service, gateway, metric, wait_for, wait_until
from support import Generate, Server, free_port, serve, step, succeed, variables

SLOW = """\
        if (INPUT < 0).any():
            raise InvalidRequest("INPUT: is below 0; send seconds")
        if (INPUT > 1000).any():
            raise RuntimeError("secret")
        time.sleep(float(INPUT.max()))
"""


@pytest.fixture(scope="module")
def slow(generate: Generate) -> Iterator[Server]:
    """Serve a pipeline that takes as many seconds as its input says."""
    tensors = {"INPUT": "FP32[1]", "OUTPUT": "FP32[1]"}
    steps = [step("wait", ["INPUT"], ["OUTPUT"], batching=False)]
    project = generate(project_name="slow", tensors=tensors, steps=steps, extras=["gateway"])
    file = project / "steps/wait.py"
    code = file.read_text().replace("import Context", "import Context, InvalidRequest")
    code = code.replace("import numpy as np", "import time\n\nimport numpy as np")
    file.write_text(
        code.replace("        rows = len(INPUT)\n", f"{SLOW}        rows = len(INPUT)\n")
    )
    succeed(project.make("repository"))
    with serve(project) as server:
        yield server


def seconds(*values: float) -> dict[str, Any]:
    return {"INPUT": [[value] for value in values]}


def test_deadlines_failures_and_bytes(slow: Server) -> None:
    limits = {"GATEWAY_TIMEOUT_S": "0.5", "GATEWAY_MAX_BYTES": "1000", "GATEWAY_BODY_S": "1"}
    with gateway(slow.project, slow.urls["http"], **limits) as service:
        failed = service.post(seconds(2000))
        assert (failed.status, b"secret" in failed.content) == (500, False)
        assert service.post(seconds(2)).status == 504
        assert service.post(b" " * 1001).status == 413
        chunks = (b" " * 500 for _ in range(10))
        connection = service.connect()
        connection.request(
            "POST", "/predict", chunks, {"Content-Type": "application/json"}, encode_chunked=True
        )
        assert connection.getresponse().status == 413
        connection.close()
        with socket.create_connection(("127.0.0.1", service.port)) as half:
            half.sendall(b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
            assert half.recv(100).startswith(b"HTTP/1.1 408")


@pytest.mark.slow
@pytest.mark.parametrize("batch", ["1", "0"])
def test_each_request_ends_at_its_own_end(slow: Server, batch: str) -> None:
    """Also one that shares its call with later ones, waits for a call or a place, or is sent again alone."""
    limits = {"GATEWAY_TIMEOUT_S": "1.5", "GATEWAY_WAIT_S": "9", "GATEWAY_CONCURRENCY": "8"}

    def ask(service: Service, number: int) -> tuple[int, float]:
        time.sleep(0.1 * number)
        start = time.monotonic()
        status = service.post(seconds(2000 if number % 9 == 4 else 0.7)).status
        return status, time.monotonic() - start

    with (
        gateway(slow.project, slow.urls["http"], GATEWAY_BATCH=batch, **limits) as service,
        ThreadPoolExecutor(30) as pool,
    ):
        answers = list(pool.map(ask, [service] * 30, range(30)))
    assert {status for status, _ in answers} <= {200, 429, 500, 504}
    assert max(took for _, took in answers) < 2
    assert Counter(status for status, _ in answers)[504]


@pytest.mark.slow
def test_rows_that_are_refused_fail_alone_also_in_shared_calls(slow: Server) -> None:
    with gateway(slow.project, slow.urls["http"]) as service, ThreadPoolExecutor(24) as pool:
        given = [
            [-1.0] if i % 5 == 0 else [0.05, -1.0] if i % 5 == 1 else [0.05] for i in range(48)
        ]
        answers = list(pool.map(lambda values: service.post(seconds(*values)), given))
        for values, answer in zip(given, answers, strict=True):
            assert answer.status == (400 if values == [-1.0] else 200)
            if len(values) == 2:
                assert answer.json()["OUTPUT"] == [[0.0], None]
                assert answer.json()["errors"][0]["row"] == 1


def test_rows_are_counted_also_where_all_are_refused(slow: Server) -> None:
    with gateway(slow.project, slow.urls["http"]) as service:
        assert service.post(seconds(-1, -1, -1)).status == 400
        assert service.post(seconds(0, -1)).status == 200
        assert metric(service, "gateway_rows_total", outcome="refused") == 4
        assert metric(service, "gateway_rows_total", outcome="answered") == 1


@pytest.mark.slow
def test_who_leaves_frees_the_place(slow: Server) -> None:
    with gateway(
        slow.project, slow.urls["http"], GATEWAY_CONCURRENCY="1", GATEWAY_BATCH="0"
    ) as service:
        connection = service.connect()
        connection.request(
            "POST", "/predict", json.dumps(seconds(20)), {"Content-Type": "application/json"}
        )
        wait_for(service, "gateway_computing", 1)
        assert service.post(seconds(0)).status == 429
        connection.close()
        wait_for(service, "gateway_computing", 0)
        wait_for(service, "gateway_requests_total", 1, status="499")


@pytest.mark.slow
def test_a_connection_that_is_refused_goes_on(slow: Server) -> None:
    places = {"GATEWAY_CONCURRENCY": "1", "GATEWAY_WAITING": "0", "GATEWAY_BATCH": "0"}
    page = "https://page.example"
    with (
        gateway(slow.project, slow.urls["http"], GATEWAY_CORS=page, **places) as service,
        ThreadPoolExecutor(1) as pool,
    ):
        held = pool.submit(service.post, seconds(3))
        wait_for(service, "gateway_computing", 1)
        connection, head = service.connect(), {"Content-Type": "application/json"}
        for number in range(3):
            request_id = f"request-{number}"
            body = json.dumps({**seconds(0), "more": "x" * 300_000})  # longer than one read
            connection.request("POST", "/predict", body, {**head, "X-Request-ID": request_id})
            refused = Answer(connection.getresponse())
            assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
            assert refused.json()["id"] == refused.headers["X-Request-ID"] == request_id
        elsewhere = service.post(seconds(0), Origin=page)
        assert elsewhere.status == 429
        assert elsewhere.headers["Access-Control-Allow-Origin"] == page
        with socket.create_connection(("127.0.0.1", service.port)) as old:
            old.sendall(b"POST /predict HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
            parts = iter(lambda: old.recv(4096), b"")  # until it is closed
            assert b"\r\nconnection: close\r\n" in b"".join(parts)
        assert held.result().status == 200
        connection.request("POST", "/predict", json.dumps(seconds(0)), head)
        assert connection.getresponse().status == 200
        connection.close()
        assert metric(service, "gateway_requests_total", route="/predict", status="429") == 5


@pytest.mark.slow
@pytest.mark.parametrize("adapt", [True, False])
def test_fewer_are_let_in_while_most_are_refused(slow: Server, adapt: bool) -> None:
    places = {"GATEWAY_CONCURRENCY": "8", "GATEWAY_WAITING": "0", "GATEWAY_BATCH": "0"}
    with (
        gateway(slow.project, slow.urls["http"], **places, GATEWAY_ADAPT=f"{adapt:d}") as service,
        ThreadPoolExecutor(24) as pool,
    ):

        def computing(clients: int, wanted: Callable[[float], bool], timeout_s: float) -> bool:
            """Ask as so many clients, until what is at Triton is as wanted ten times in a row."""
            end, found = Event(), 0

            def client(_: int) -> None:
                while not end.is_set():
                    refused = service.post(seconds(0.01)).status == 429
                    if refused and clients == 8:
                        time.sleep(1)  # as Retry-After says

            running = [pool.submit(client, number) for number in range(clients)]
            deadline = time.monotonic() + timeout_s
            while found < 10 and time.monotonic() < deadline:
                time.sleep(0.05)
                found = found + 1 if wanted(metric(service, "gateway_computing")) else 0
            end.set()
            for each in running:
                each.result()
            return found == 10

        assert computing(24, lambda count: count <= 4, 40 if adapt else 6) == adapt
        assert computing(8, lambda count: count >= 5, 40)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["TERM", "HUP"])
@pytest.mark.parametrize("options", [["--workers=1"], ["--workers=2"], []], ids=str)
def test_a_stop_waits_for_what_is_under_way(
    slow: Server, options: list[str], number: signal.Signals
) -> None:
    """New connections are refused meanwhile: one that waits in vain would be lost."""
    with gateway(slow.project, slow.urls["http"], *options) as service:
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(service.post, seconds(4))
            wait_for(service, "gateway_computing", 1)
            service.process.send_signal(number)
            wait_until(service.refuses)
            assert not answer.done()
            assert answer.result().status == 200
        assert service.process.wait(20) == 0


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("WORKERS=2",)])
def test_a_stop_of_make_ends_both_servers(slow: Server, options: tuple[str, ...]) -> None:
    """Also that of a shell between them, which would end alone."""
    port = free_port()
    given = [f"GATEWAY_PORT={port}", *options]
    with NamedTemporaryFile() as log:
        make = subprocess.Popen(
            slow.project.make_command("gateway", *given),
            cwd=slow.project.path,
            env=variables(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        service = Service(port, make, Path(log.name))
        wait_until(service.is_alive)
        [name] = re.findall(r"/(triton-\w+)/", service.log.read_text())
        make.send_signal(signal.SIGTERM)
        make.wait(30)
    assert not service.is_alive()
    assert subprocess.run(["pgrep", "-f", f"id={name}-"], check=False).returncode == 1
