"""Four times the load that the gateway has places for: what becomes of each request, how late, and the memory.

python -m benchmarks.gateway.overload [digits | photo] [--minutes 5] [--workers 2] [--factor 4]

First as many clients as there are places, each of which asks again when it is answered: their p99 and rate are what
it can do. Then requests at so many times that rate, whether earlier ones are answered or not.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import uvloop
from urllib3 import encode_multipart_formdata

from benchmarks.generation import template
from benchmarks.peers.gateway import Service, gateway
from benchmarks.processes import family, memory_mib
from benchmarks.works import CORES, jpeg, pipeline, project
from triton_ensemble.gateway.settings import Settings
from triton_ensemble.serve.local.local_triton import BEHIND, LocalTriton

RISES_S = 5.0  # until the rate is reached: thousands of connections are opened meanwhile
HUNG_S = 40.0  # after all deadlines of the gateway


class Connection(asyncio.Protocol):
    """Posts one request after the other; a protocol, since streams took half of the cores for themselves."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._began = 0.0
        self._answer = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def ask(self, began: float) -> None:
        self._began, self._answer = began, b""
        self._transport.write(self._load.request)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, _, body = self._answer.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        if length and len(body) == int(length):
            self._end(head[9:12].decode())
            self._load.idle.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._began:
            self._end("no answer")
        elif self in self._load.idle:  # the gateway ends those that nobody uses
            self._load.idle.remove(self)

    def _end(self, status: str) -> None:
        self._load.seconds[status].append(time.perf_counter() - self._began)
        self._began = 0.0


class Load:
    """A request to a port, and how long its answers took, by status."""

    def __init__(self, port: int, body: bytes, content_type: str) -> None:
        head = f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\n"
        self.request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        self._port = port
        self.idle: list[Connection] = []
        self._connecting: set[asyncio.Future[None]] = set()
        self.seconds: dict[str, list[float]] = defaultdict(list)

    async def run(self, rate: float, seconds: float, clients: int = 0) -> None:
        """Ask at a rate, however long answers take, or as so many clients that wait for theirs; then wait for the last."""
        began, asked = time.perf_counter(), 0
        while (now := time.perf_counter() - began) < seconds:
            wanted = rate * (now - RISES_S / 2 if now > RISES_S else now**2 / RISES_S / 2)
            due = min(int(wanted), self._answered() + (clients or int(1e9))) - asked
            for _ in range(due):
                self._ask(time.perf_counter())
            asked += max(due, 0)
            await asyncio.sleep(0.001)
        end = time.perf_counter() + HUNG_S
        while self._answered() < asked and time.perf_counter() < end:
            await asyncio.sleep(0.1)
        self.seconds["hung"] += [HUNG_S] * (asked - self._answered())

    def _answered(self) -> int:
        return sum(map(len, self.seconds.values()))

    def _ask(self, began: float) -> None:
        if self.idle:
            self.idle.pop().ask(began)
        else:
            task = asyncio.ensure_future(self._connect(began))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, began: float) -> None:
        try:
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(
                lambda: Connection(self), "127.0.0.1", self._port
            )
        except OSError:
            self.seconds["no connection"].append(time.perf_counter() - began)
        else:
            connection.ask(began)


async def watch_memory(service: Service) -> None:
    while True:
        print(f"{sum(map(memory_mib, family(service.pid))):.0f} MiB", flush=True)
        await asyncio.sleep(10)


def p99_ms(seconds: list[float]) -> float:
    if len(seconds) < 2:
        return 1000 * sum(seconds)
    return 1000 * statistics.quantiles(seconds, n=100)[98]


async def measured(
    service: Service, request: tuple[bytes, str], options: argparse.Namespace
) -> None:
    """Print what becomes of the requests."""
    port = int(service.url.rpartition(":")[2])
    await Load(port, *request).run(1e6, 5, clients=8)  # warms up
    calm, load = Load(port, *request), Load(port, *request)
    await calm.run(1e6, 20, clients=Settings.concurrency * options.workers)
    rate, unloaded = len(calm.seconds["200"]) / 20, p99_ms(calm.seconds["200"])
    print(f"{rate:.0f} answers/s, p99 {unloaded:.0f} ms with a client for each place", flush=True)
    watch = asyncio.ensure_future(watch_memory(service))
    await load.run(options.factor * rate, 60 * options.minutes)
    watch.cancel()
    for status, seconds in sorted(load.seconds.items()):
        last = max(seconds, default=0)
        print(f"{status}: {len(seconds)} requests, p99 {p99_ms(seconds):.0f} ms, last {last:.2f} s")
    print(f"p99 of admitted / unloaded: {p99_ms(load.seconds['200']) / unloaded:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gateway.overload", description=__doc__
    )
    parser.add_argument("work", nargs="?", choices=["digits", "photo"], default="photo")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--workers", type=int, default=CORES)
    parser.add_argument("--factor", type=float, default=4.0)
    options = parser.parse_args()
    answers = {**pipeline(options.work, 1, 1, 1), "extras": ["gateway"]}
    request = encode_multipart_formdata([("IMAGE", ("a.jpg", jpeg(answers)))])
    with tempfile.TemporaryDirectory() as folder:
        path = project(template(Path(folder, "template")), answers, Path(folder, "project"))
        with (
            LocalTriton(path / "model_repository", "served", niceness=BEHIND) as triton,
            gateway(path, triton.http_url, options.workers) as service,
        ):
            uvloop.run(measured(service, request, options))


if __name__ == "__main__":
    main()
