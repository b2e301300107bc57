"""Send garbage to each route of a gateway of one worker: its statuses, its worst stall, and its memory.

python -m benchmarks.gateway.attack [--count 1000] [--only WORDS]
"""

from __future__ import annotations

import argparse
import http.client
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import NamedTuple

import copier

from benchmarks.gateway.garbage import (
    JSON,
    KEY,
    MIB,
    TARGETS,
    Target,
    add_code,
    floods,
    garbage,
    heavy,
    post,
)
from benchmarks.gateway.service import Service, gateway
from benchmarks.generation import template
from triton_ensemble.server.local_triton import BEHIND, LocalTriton

READ_S = 3  # GATEWAY_TIMEOUT_S here


def send(port: int, data: bytes) -> str:
    """Send bytes and nothing more; return the status, or - if the connection ends without one."""
    with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=90) as to:
        with suppress(ConnectionError):
            to.sendall(data)
            if b"\r\n\r\n" not in data:
                to.shutdown(socket.SHUT_WR)
        answer = to.recv(12)
        while to.recv(MIB):
            pass
        return answer[9:].decode() or "-"
    return "-"


def leave(port: int, data: bytes) -> str:
    """Send bytes and end the connection."""
    with socket.create_connection(("127.0.0.1", port)) as to:
        to.sendall(data)
    return "-"


@contextmanager
def unread(port: int, requests: Iterable[bytes]) -> Iterator[Counter[str]]:
    """Send requests and read the status of each answer, but no more; yield the statuses while the connections are open."""
    with ExitStack() as stack:
        seen: Counter[str] = Counter()
        for data in requests:
            to = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=90))
            to.sendall(data)
            seen[to.recv(12)[9:].decode() or "-"] += 1
        yield seen


def memory_mib(pid: int, field: str = "VmRSS") -> float:
    """Return what a process holds; VmHWM is the most since it was reset."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(rf"{field}:\s*(\d+)", status)[0]) / 1024


class Wait(NamedTuple):
    """The time of an answer of /healthz, and how much processor time the gateway took meanwhile."""

    seconds: float = 0.0
    cpu_s: float = 0.0


@contextmanager
def watched(port: int, pid: int) -> Iterator[list[Wait]]:
    """Ask /healthz of a gateway of one process each 20 ms; the list has how long each answer took.

    The longest processor time is how long the loop stood still, also on a machine that is busy otherwise.
    """
    waits, end = [Wait()], Event()
    clock = (~pid << 3) | 2  # of a process: CPUCLOCK_SCHED in linux/include/linux/posix-timers.h

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        while not end.wait(0.02):
            began, cpu_s = time.perf_counter(), time.clock_gettime(clock)
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b'{"status":"alive"}'
            waits.append(Wait(time.perf_counter() - began, time.clock_gettime(clock) - cpu_s))
        connection.close()

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        try:
            yield waits
        finally:
            end.set()
    asking.result()


def measure(service: Service, name: str, path: str, attack: Callable[[int], Counter[str]]) -> None:
    """Print a row of the table."""
    before = memory_mib(service.pid)
    Path(f"/proc/{service.pid}/clear_refs").write_text("5")
    port = int(service.url.rpartition(":")[2])
    with watched(port, service.pid) as waits:
        seen = attack(port)
        most = memory_mib(service.pid, "VmHWM")
    time.sleep(1)
    after = memory_mib(service.pid)
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(seen.items()))
    memory = f"{before:.0f}, {most:.0f}, {after:.0f}"
    wall, cpu = (f"{1000 * max(times):.0f}" for times in zip(*waits, strict=True))
    cells = [name, path, f"{seen.total():,}", statuses, wall, cpu, memory]
    print(f"| {' | '.join(cells)} |", flush=True)


def fire(
    how: Callable[[int, bytes], str], requests: Sequence[bytes], clients: int, port: int
) -> Counter[str]:
    """Send requests by so many clients at once; return the statuses."""
    with ThreadPoolExecutor(clients) as pool:
        return Counter(pool.map(partial(how, port), requests))


def hold(requests: Sequence[bytes], port: int) -> Counter[str]:
    """Read nothing of answers until the gateway ends the connections."""
    with unread(port, requests) as seen:
        time.sleep(2 * READ_S)
    return seen


@contextmanager
def serving(source: str, folder: Path, target: Target) -> Iterator[Service]:
    """Serve a target by a gateway of one worker, which asks for a key."""
    answers = {"project_name": target.name, **target.answers}
    copier.run_copy(source, folder, data=answers, defaults=True, quiet=True)
    add_code(target, folder)
    command = [sys.executable, "-m", "triton_ensemble", "repository"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with LocalTriton(folder / "model_repository", target.name, niceness=BEHIND) as triton:
        settings = {"api_keys": KEY, "timeout_s": READ_S}
        with gateway(folder, triton.grpc_url, 1, **settings) as service:
            yield service


def attack(service: Service, target: Target, count: int, only: str) -> None:
    def row(name: str, path: str, work: Callable[[int], Counter[str]]) -> None:
        if only in name:
            measure(service, name, path, work)

    for path, around in target.routes.items():
        good = post(path, around % b'["a"]', f"Content-Type: {JSON}")
        row("good requests", path, partial(fire, send, [good] * count, 8))
        for name, make in garbage(path, around).items():
            row(name, path, partial(fire, send, [make() for _ in range(count)], 8))
        for name, make in floods(path, around).items():
            row(name, path, partial(fire, send, [make()] * 4, 2))
        for name, make in heavy(path, around).items():  # one by one: each body's own stall
            row(name, path, partial(fire, send, [make()] * 4, 1))
    for path, body in target.large.items():
        data = post(path, body, f"Content-Type: {JSON}")
        row("left before the first byte", path, partial(fire, leave, [data] * count, 8))
        row("60 unread answers of 10 MB", path, partial(hold, [data] * 60))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gateway.attack", description=__doc__
    )
    parser.add_argument("--count", type=int, default=1000, help="requests of each small kind")
    parser.add_argument("--only", default="", help="attacks with these words in their name")
    options = parser.parse_args()
    worst = "worst /healthz, ms | its processor time, ms"
    print(f"| attack | route | requests | statuses | {worst} | MiB before, most, after |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        source = template(Path(folder, "template"))
        for target in TARGETS:
            with serving(source, Path(folder, target.name), target) as service:
                attack(service, target, options.count, options.only)


if __name__ == "__main__":
    main()
