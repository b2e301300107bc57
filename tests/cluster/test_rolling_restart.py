"""No request is lost while the pods of deploy/kubernetes are replaced. Without parts of the manifest some are.

Two local Tritons stand for two pods, and cluster/rolling.py has what a cluster does with them.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster import load
from cluster.load import LOST, REQUESTS, RETRIES
from cluster.rolling import PRE_STOP, PROBES, Cluster
from support import Generate, Project

AFTER_S = 15.0  # until the last pod has ended, but for requests in flight
Counts = dict[str, dict[str, Any]]


@asynccontextmanager
async def serve_for_load(project: Path, cluster: Cluster, factor: float) -> AsyncIterator[Counts]:
    """Let processes ask through the Service while a block lasts. Their counts are then in the yielded mapping."""
    urls = [
        f"{scheme}://{await cluster.balancer.listen(port)}"
        for scheme, port in (("http", 8000), ("grpc", 8001))
    ]
    command = (sys.executable, load.__file__, str(project), *urls, f"--factor={factor}")
    pipe = asyncio.subprocess.PIPE
    started = [
        await asyncio.create_subprocess_exec(*command, *new, stdin=pipe, stdout=pipe)
        for new in ([], ["--new"])
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
    project: Path, cluster: Cluster, restarts: int = 1, factor: float = 1.0
) -> Counts:
    """Return what becomes of requests while all pods are replaced, so many times."""
    async with serve_for_load(project, cluster, factor) as counts:
        for _ in range(restarts):
            await cluster.restart()
        await asyncio.sleep(AFTER_S * factor)
    return counts


# Of all times: the manifest's, the cluster's, and those of the client's pauses.
SCALED = 0.2


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    project = generate.complete(extras=["kubernetes"])
    return project


async def restarted(
    project: Project, left_out: str, factor: float, *, restarts: int, without: int
) -> list[Counts]:
    """Return the counts of restarts as the manifest says, and of some `without` a part of it."""
    async with Cluster(project.path, factor) as cluster:
        await cluster.start()
        whole = await measured(project.path, cluster, restarts, factor=factor)
        assert not cluster.killed
        cluster.without.add(left_out)
        partly = await measured(project.path, cluster, without, factor=factor)
    for counts in (whole, partly):
        print(*lines(counts), sep="\n")
    return [whole, partly]


def test_a_restart_loses_no_request_and_would_without_probes(project: Project) -> None:
    whole, partly = asyncio.run(restarted(project, PROBES, SCALED, restarts=1, without=1))
    assert total(whole, REQUESTS) > 20
    assert total(whole, LOST) == 0
    assert total(partly, LOST) > 0


@pytest.mark.slow
def test_ten_restarts_lose_no_request_and_three_would_without_prestop(project: Project) -> None:
    """Not scaled: a Triton takes its time to end, however short the rest is."""
    whole, partly = asyncio.run(restarted(project, PRE_STOP, 1.0, restarts=10, without=3))
    assert total(whole, REQUESTS) > 200
    assert total(whole, LOST) == 0
    assert total(partly, LOST) > 0
