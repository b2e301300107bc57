"""Requests that are lost while the pods of deploy/kubernetes are replaced under load.

python -m benchmarks.restart [--restarts 10] [--factor 1] [--clients 1] [--without preStop]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import copier

from benchmarks.generation import template
from benchmarks.restart.cluster import AGE, PRE_STOP, PROBES, Cluster
from benchmarks.restart.load import LOST, REQUESTS, RETRIES

ROOT = Path(__file__).resolve().parents[2]
AFTER_S = 15.0  # until the last pod has ended, but for requests in flight
Counts = dict[str, dict[str, Any]]


@contextmanager
def generated() -> Iterator[Path]:
    """Yield the default project with deploy/kubernetes, its model repository complete."""
    with tempfile.TemporaryDirectory() as folder:
        project, source = Path(folder, "project"), template(Path(folder, "template"))
        answers = {"extras": ["kubernetes"]}
        copier.run_copy(source, project, data=answers, defaults=True, quiet=True)
        command = [sys.executable, "-m", "triton_ensemble", "repository"]
        subprocess.run(command, cwd=project, check=True, stdout=subprocess.DEVNULL)
        yield project


@asynccontextmanager
async def serve_for_load(
    project: Path, cluster: Cluster, clients: int, factor: float
) -> AsyncIterator[Counts]:
    """Let processes ask through the Service for as long as a block lasts; then what is yielded has their counts."""
    urls = [
        f"{scheme}://{await cluster.balancer.listen(port)}"
        for scheme, port in (("http", 8000), ("grpc", 8001))
    ]
    command = [sys.executable, "-m", "benchmarks.restart.load", str(project), *urls]
    started = [
        await _read_start_time(*command, f"--factor={factor}", *new)
        for new in ([], ["--new"]) * clients
    ]
    counts: Counts = {}
    try:
        for process in started:
            assert process.stdout
            await process.stdout.readline()
        yield counts
        for process in started:
            output, _ = await process.communicate(b"")
            _add(counts, json.loads(output))
    finally:
        for process in started:
            if process.returncode is None:
                process.kill()


async def _read_start_time(*command: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe)


def _add(counts: Counts, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        mine = counts.setdefault(
            row.pop("name"), {"reasons": Counter(), REQUESTS: 0, RETRIES: 0, LOST: 0}
        )
        for key, value in row.items():
            mine[key] += Counter(value) if key == "reasons" else value


def total(counts: Counts, what: str) -> int:
    """Return what all clients together have counted."""
    return sum(row[what] for row in counts.values())


def lines(counts: Counts) -> Iterator[str]:
    """Yield a line for each kind of client, and one for all."""
    for name, row in counts.items():
        reasons = "; ".join(f"{n} {text}" for text, n in row["reasons"].most_common(3))
        yield f"  {name}: {row[REQUESTS]} requests, {row[RETRIES]} retries, {row[LOST]} lost {reasons}"
    sums = ", ".join(f"{total(counts, what)} {what}" for what in (REQUESTS, RETRIES, LOST))
    yield f"  together: {sums}"


async def measured(
    project: Path, cluster: Cluster, restarts: int = 1, clients: int = 1, factor: float = 1.0
) -> Counts:
    """Return what becomes of requests while all pods are replaced, so many times."""
    async with serve_for_load(project, cluster, clients, factor) as counts:
        for _ in range(restarts):
            await cluster.restart()
        await asyncio.sleep(AFTER_S * factor)
    return counts


async def printed(options: argparse.Namespace, project: Path) -> None:
    """Print the counts of a cluster of its own."""
    async with Cluster(project, options.factor) as cluster:
        cluster.without.update({*options.without} & {AGE})
        await cluster.start()
        cluster.without.update(options.without)
        began = time.monotonic()
        counts = await measured(project, cluster, options.restarts, options.clients, options.factor)
        print(
            f"{options.restarts} restarts of {len(cluster.pods)} pods in {time.monotonic() - began:.0f} s:"
        )
        print(*lines(counts), f"  killed after the grace period: {cluster.killed}", sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.restart", description=__doc__)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument(
        "--clients", type=int, default=1, help="pairs of processes with four clients each"
    )
    parser.add_argument("--factor", type=float, default=1.0, help="of all times")
    parser.add_argument("--without", action="append", default=[], choices=(PRE_STOP, PROBES, AGE))
    options = parser.parse_args()
    with generated() as project:
        asyncio.run(printed(options, project))


if __name__ == "__main__":
    main()
