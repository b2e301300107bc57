"""Four times the load that the gateway has places for: what becomes of each request, how late, and the memory.

python -m benchmarks.gateway.overload [--minutes 5] [--workers 2] [--factor 4]

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

from urllib3 import encode_multipart_formdata

from benchmarks.fusion.__main__ import processes
from benchmarks.fusion.works import CORES, image, jpeg, project
from benchmarks.gateway.service import Service, gateway
from benchmarks.generation import template
from triton_ensemble.gateway.settings import Settings
from triton_ensemble.server.local_triton import LocalTriton

HUNG_S = 40.0  # after all deadlines of the gateway
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Load:
    """Posts one request over connections that are kept; `seconds` has how long answers took, by status."""

    def __init__(self, port: int, body: bytes, content_type: str) -> None:
        head = f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\n"
        self._request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        self._port = port
        self._idle: list[Connection] = []
        self.seconds: dict[str, list[float]] = defaultdict(list)

    async def ask(self) -> None:
        """Send the request, and note its answer."""
        began = time.perf_counter()
        try:
            status = await asyncio.wait_for(self._asked(), HUNG_S)
        except (TimeoutError, OSError, EOFError) as error:
            status = type(error).__name__
        self.seconds[status].append(time.perf_counter() - began)

    async def _asked(self) -> str:
        reader, writer = await self._connected()
        writer.write(self._request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        await reader.readexactly(int(length))
        self._idle.append((reader, writer))
        return head[9:12].decode()

    async def _connected(self) -> Connection:
        """Return a connection that waits for a request, or a new one."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():  # the gateway ends those that nobody uses
                return reader, writer
        return await asyncio.open_connection("127.0.0.1", self._port)

    async def closed_loop(self, clients: int, seconds: float) -> None:
        """Let clients ask that wait for their answers."""
        end = time.perf_counter() + seconds

        async def client() -> None:
            while time.perf_counter() < end:
                await self.ask()

        await asyncio.gather(*[client() for _ in range(clients)])

    async def open_loop(self, rate: float, seconds: float) -> None:
        """Ask at a rate, however long answers take; then wait for the last."""
        began, asked = time.perf_counter(), 0
        async with asyncio.TaskGroup() as tasks:
            while (now := time.perf_counter() - began) < seconds:
                for _ in range(int(now * rate) - asked):
                    tasks.create_task(self.ask())
                    asked += 1
                await asyncio.sleep(0.002)


def memory_mib(service: Service) -> float:
    """Return what the processes of a gateway hold that no file is behind."""
    statuses = (process / "status" for process in processes(service.session))
    lines = [line for status in statuses for line in status.read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


async def watched(service: Service, samples: list[float]) -> None:
    while True:
        samples.append(memory_mib(service))
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
    await Load(port, *request).closed_loop(8, 5)  # warms up
    calm, load = Load(port, *request), Load(port, *request)
    await calm.closed_loop(Settings.concurrency * options.workers, 20)
    rate, unloaded = len(calm.seconds["200"]) / 20, p99_ms(calm.seconds["200"])
    print(f"{rate:.0f} answers/s, p99 {unloaded:.0f} ms with a client for each place", flush=True)
    samples: list[float] = []
    watch = asyncio.ensure_future(watched(service, samples))
    await load.open_loop(options.factor * rate, 60 * options.minutes)
    watch.cancel()
    for status, seconds in sorted(load.seconds.items()):
        print(
            f"{status}: {len(seconds)} requests, p99 {p99_ms(seconds):.0f} ms, last {max(seconds):.2f} s"
        )
    print(f"p99 of admitted / unloaded: {p99_ms(load.seconds['200']) / unloaded:.2f}")
    print("MiB, by 10 s:", *[round(sample) for sample in samples])


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gateway.overload", description=__doc__
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--workers", type=int, default=CORES)
    parser.add_argument("--factor", type=float, default=4.0)
    options = parser.parse_args()
    answers = {**image("digits", 1, 1, 1), "extras": ["gateway"]}
    request = encode_multipart_formdata([("IMAGE", ("a.jpg", jpeg(answers)))])
    with tempfile.TemporaryDirectory() as folder:
        path = project(template(Path(folder, "template")), answers, Path(folder, "project"))
        with (
            LocalTriton(path / "model_repository", "served") as triton,
            gateway(path, triton.grpc_url, options.workers) as service,
        ):
            asyncio.run(measured(service, request, options))


if __name__ == "__main__":
    main()
