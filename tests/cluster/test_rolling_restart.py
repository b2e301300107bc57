"""No request is lost while the pods of deploy/kubernetes are replaced; without parts of the manifest some are.

Two local Tritons stand for two pods; cluster/rolling.py has what a cluster does with them.
"""

from __future__ import annotations

import asyncio

import pytest
from cluster.load import LOST, REQUESTS
from cluster.restarts import Counts, lines, measured, total
from cluster.rolling import PRE_STOP, PROBES, Cluster
from support import Generate, Project

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
