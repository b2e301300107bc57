"""What the gateway costs: its throughput over that of the generated async client, and of FastAPI with the model inside.

python -m benchmarks.gateway [digits] [photo] [--rounds 10] [--concurrency 32]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from urllib3 import encode_multipart_formdata

from benchmarks.fusion.__main__ import Figures, baseline, middle, ratio
from benchmarks.fusion.works import jpeg, pipeline, project
from benchmarks.gateway.service import gateway
from benchmarks.generation import template
from benchmarks.processes import cpu_seconds, family
from benchmarks.wrk import Request, Wrk
from triton_ensemble.client import package
from triton_ensemble.project import Project
from triton_ensemble.server.local_triton import LocalTriton

WORKS = ["digits", "photo"]
DIRECT, GATEWAY, RAW, FASTAPI = "async client", "gateway", "gateway, the file alone", "FastAPI"


class Direct:
    """Calls the pipeline by the generated project's own client, in this process."""

    def __init__(self, folder: Path, url: str, content: bytes) -> None:
        self._client: Any = package(Project.load(folder)).AsyncClient
        self._url, self._inputs = url, {"IMAGE": [[content]]}

    def throughput(self, concurrency: int, seconds: int) -> float:
        """Return the answers a second."""
        return asyncio.run(self._throughput(concurrency, seconds))

    async def _throughput(self, concurrency: int, seconds: int) -> float:
        answers, end = 0, time.perf_counter() + seconds
        async with self._client(self._url) as client:

            async def asked() -> None:
                nonlocal answers
                while time.perf_counter() < end:
                    await client.infer(self._inputs)
                    answers += 1

            await asyncio.gather(*[asked() for _ in range(concurrency)])
        return answers / seconds


class Target(NamedTuple):
    """What is loaded, and the processes that have started those that serve it."""

    load: Wrk | Direct
    pids: list[int]

    def cpu_seconds(self) -> float:
        served = [process for pid in self.pids for process in family(pid)]
        own = time.process_time() if isinstance(self.load, Direct) else 0.0
        return own + sum(map(cpu_seconds, served))


@contextmanager
def served(work: str, folder: Path) -> Iterator[dict[str, Target]]:
    """Yield what answers a work's request, by name; all of it runs, and one is asked at a time."""
    answers = {**pipeline(work, 1, 1, 1), "extras": ["gateway"]}
    path = project(template(folder / "template"), answers, folder / work)
    content = jpeg(answers)
    body, content_type = encode_multipart_formdata([("IMAGE", ("a.jpg", content))])
    form = Request("/predict", body, {"Content-Type": content_type})
    raw = Request("/predict", content, {"Content-Type": "image/jpeg"})
    with ExitStack() as stack:
        triton = stack.enter_context(LocalTriton(path / "model_repository", "served"))
        service = stack.enter_context(gateway(path, triton.http_url, 1))
        inside = stack.enter_context(baseline(sys.executable, answers, path))
        models = triton.pid
        yield {
            DIRECT: Target(Direct(path, triton.grpc_url, content), [models]),
            GATEWAY: Target(Wrk(service.url, form), [models, service.pid]),
            RAW: Target(Wrk(service.url, raw), [models, service.pid]),
            FASTAPI: Target(inside.load, [inside.pid]),
        }


def measured(targets: dict[str, Target], concurrency: int, rounds: int, seconds: int) -> Figures:
    """Load each in turn, so many times, after once for warmth."""
    figures = Figures({name: [] for name in targets}, {name: [] for name in targets})
    for target in targets.values():
        target.load.throughput(concurrency, 1)
    for _ in range(rounds):
        for name, target in targets.items():
            before = target.cpu_seconds()
            throughput = target.load.throughput(concurrency, seconds)
            used = target.cpu_seconds() - before
            figures.throughput[name].append(throughput)
            figures.cpu[name].append(1e6 * used / max(1.0, throughput * seconds))
    return figures


def table(work: str, figures: Figures) -> None:
    """Print the answers a second, the time of all processors for one (us), and both over the gateway's."""
    print(f"\n| {work} | requests/s | us | gateway / this | by processor time |")
    print("|---|---|---|---|---|")
    for name in figures.throughput:
        by_cpu = middle(figures.cpu, name) / middle(figures.cpu, GATEWAY)
        cells = [f"{middle(rounds, name):.0f}" for rounds in figures]
        ratios = [f"{ratio(figures.throughput, GATEWAY, name):.2f}", f"{by_cpu:.2f}"]
        print(f"| {name} | {' | '.join(cells + ratios)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    parser.add_argument("works", nargs="*", default=WORKS, metavar="WORK", help=", ".join(WORKS))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=2, help="of each measurement")
    parser.add_argument("--concurrency", type=int, default=32)
    options = parser.parse_args()
    for work in options.works:
        with tempfile.TemporaryDirectory() as folder, served(work, Path(folder)) as targets:
            table(work, measured(targets, options.concurrency, options.rounds, options.seconds))


if __name__ == "__main__":
    main()
