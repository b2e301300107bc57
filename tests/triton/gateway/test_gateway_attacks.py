"""Garbage for each route of a gateway of one worker: it answers others, fails at nothing, and keeps its memory."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPResponse
from pathlib import Path
from typing import NamedTuple

import pytest
from gateway_garbage import (
    KEY,
    MIB,
    TARGETS,
    Target,
    add_code,
    floods,
    garbage,
    heavy,
    memory_mib,
    post,
    send,
    unread,
    watched,
)
from gateway_service import Service, gateway, metric
from support import Generate, first_fast, succeed

from triton_ensemble.serve.local.local_triton import LocalTriton

MEMORY_MIB = 192
LIMITS = {
    "GATEWAY_API_KEYS": KEY,
    "GATEWAY_MEMORY_BYTES": str(MEMORY_MIB << 20),
    "GATEWAY_TIMEOUT_S": "5",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 20),  # the allocator gives large parts back when freed
}
SMALL = garbage("", b"%s")
LARGE = floods("", b"%s")
HEAVY = heavy("", b"%s")
STALL_S = 1.0  # of processor time: twice the most that benchmarks/gateway/README.md allows


class Attacked(NamedTuple):
    target: Target
    service: Service
    idle_mib: float

    def check_memory(self, more_mib: float = 0) -> None:
        """Fail if it had more than twice its idle memory and what it admits, since the peak was reset."""
        most = memory_mib(self.service.process.pid, "VmHWM")
        assert most < 2 * self.idle_mib + MEMORY_MIB + more_mib


@pytest.fixture(scope="module", params=first_fast(TARGETS, 1), ids=lambda target: target.name)
def attacked(request: pytest.FixtureRequest, generate: Generate) -> Iterator[Attacked]:
    target: Target = request.param
    project = generate(project_name=target.name, **target.answers)
    add_code(target, project.path)
    succeed(project.make("repository"))
    with (
        LocalTriton(project / "model_repository", target.name) as triton,
        gateway(project, triton.grpc_url, "--workers=1", **LIMITS) as service,
    ):
        yield Attacked(target, service, memory_mib(service.process.pid))


@pytest.fixture(autouse=True)
def _others_are_answered(attacked: Attacked, request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail if /healthz takes long or the gateway fails at a request. Print the longest wait, stall and most memory."""
    service = attacked.service
    Path(f"/proc/{service.process.pid}/clear_refs").write_text("5")  # the peak is what it has now
    with watched(service.port, service.process.pid) as waits:
        yield
    times, stalls = map(max, zip(*waits, strict=True))
    most = memory_mib(service.process.pid, "VmHWM")
    kind = request.node.name
    print(f"| {kind} | {1000 * times:.0f} ms | {1000 * stalls:.0f} ms | {most:.0f} MiB |")
    assert times < 5
    assert stalls < STALL_S
    assert metric(service, "gateway_requests_total", status="500") == 0


@pytest.mark.slow
def test_answers_that_nobody_reads_make_room_for_others(attacked: Attacked) -> None:
    """Of 10 MB each: the longest unread go where memory is full, and all of them in time."""
    service, (path, body) = attacked.service, next(iter(attacked.target.large.items()))
    large = post(path, body, "Content-Type: application/json")
    small = post(path, attacked.target.routes[path] % b'["a"]', "Content-Type: application/json")
    with unread(service.port, [large] * 30) as seen:
        assert seen == {"200": 30}
        assert send(service.port, small) == "200"
        attacked.check_memory(5 * 10)  # copies of the answer that is made
        time.sleep(6)
        assert memory_mib(service.process.pid) < 2 * attacked.idle_mib


@pytest.mark.slow
def test_requests_of_others_end_no_answer_that_is_read(attacked: Attacked) -> None:
    """Bodies that do not fit beside it are refused."""
    port, (path, body) = attacked.service.port, next(iter(attacked.target.large.items()))
    part = post("/predict", b" " * (40 * MIB), "Content-Type: multipart/form-data; boundary=x")[:-1]
    with socket.socket() as client, ExitStack() as stack:
        others = [socket.create_connection(("127.0.0.1", port), timeout=9) for _ in range(6)]
        for other in others[:3]:  # before the answer, which has its time from its start
            stack.enter_context(other).sendall(part)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # the rest stays there
        client.connect(("127.0.0.1", port))
        client.sendall(post(path, body, "Content-Type: application/json"))
        answer = HTTPResponse(client)
        answer.begin()
        size = len(answer.read(1 << 16))
        for other in others[3:]:
            stack.enter_context(other).sendall(part)
            size += len(answer.read(1 << 16))
        assert other.recv(12) == b"HTTP/1.1 429"
        while more := answer.read(1 << 16):
            size += len(more)
    assert size == int(answer.getheader("Content-Length") or size) > 9_000_000
    time.sleep(1)
    assert memory_mib(attacked.service.process.pid) < 2 * attacked.idle_mib


@pytest.mark.parametrize("kind", SMALL)
def test_garbage_is_refused(attacked: Attacked, kind: str) -> None:
    for path, around in attacked.target.routes.items():
        make = garbage(path, around)[kind]
        seen = {send(attacked.service.port, make()) for _ in range(20)}
        assert all(status[:1] in "24-" for status in seen), (path, seen)
    attacked.check_memory()


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.slow) for kind in LARGE])
def test_large_garbage_is_refused(attacked: Attacked, kind: str) -> None:
    for path, around in attacked.target.routes.items():
        assert send(attacked.service.port, floods(path, around)[kind]())[:1] == "4", path
    attacked.check_memory()


@pytest.mark.slow
@pytest.mark.parametrize("kind", HEAVY)
def test_what_is_slow_to_read_stops_nobody(attacked: Attacked, kind: str) -> None:
    for path, around in attacked.target.routes.items():
        assert send(attacked.service.port, heavy(path, around)[kind]())[:1] in "24", path
