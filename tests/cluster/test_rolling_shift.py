"""`make shift ROLL=...` moves pods whose Triton has no model control API, and no request is lost meanwhile.

Two local Tritons stand for two pods, as in test_rolling_restart.py. A `kubectl` here asks for what a cluster would do.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest
from cluster.rolling import Cluster
from support import Project, succeed
from versions_of_a_step import Load, command, published

SCALED = 0.2
ROLL = "kubectl apply -k deploy/kubernetes && kubectl rollout status deployment/two-versions"
KUBECTL = """#!{python}
import socket, sys
with open("{log}", "a") as log:
    print(*sys.argv[1:], file=log)
if sys.argv[1] == "apply":
    with socket.create_connection(("127.0.0.1", {port})) as cluster:
        sys.exit(cluster.recv(1) != b"0")
"""


def wait_for(version: int, load: Load) -> None:
    """Wait until it alone answers: a kept connection stays with an old pod until that ends."""
    end = time.monotonic() + 60
    while {answered for _, _, answered in load.answers[-100:]} != {version}:
        assert time.monotonic() < end, load.by_version()
        time.sleep(0.1)


def shifted(project: Project, url: str, tools: Path) -> Load:
    """Shift and roll back under load, and return the load."""
    load, path = Load(project, url), f"{tools}:{os.environ['PATH']}"
    with load.running():
        wait_for(1, load)
        for version, words in ((2, ("shift", "NAME=one", "VERSION=2")), (1, ("rollback",))):
            printed = succeed(command(project, *words, f"ROLL={ROLL}", PATH=path))
            assert "ROLL succeeded: the servers serve it" in printed
            wait_for(version, load)
    return load


async def rolled(project: Project, folder: Path) -> Load:
    """Do that on a cluster, whose `kubectl` is in a folder."""
    async with Cluster(project.path, SCALED) as cluster:

        async def applied(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await cluster.restart()
            writer.write(b"0")
            writer.close()

        await cluster.start()
        async with await asyncio.start_server(applied, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            text = KUBECTL.format(python=sys.executable, log=folder / "log", port=port)
            (folder / "kubectl").write_text(text)
            (folder / "kubectl").chmod(0o755)
            url = f"http://{await cluster.balancer.listen(8000)}"
            return await asyncio.to_thread(shifted, project, url, folder)


@pytest.mark.slow
def test_a_shift_and_a_rollback_roll_the_pods(git_template: Path, tmp_path: Path) -> None:
    project = published(git_template, tmp_path, extras=["kubernetes"])
    succeed(command(project, "publish", "NAME=one", "VERSION=2"))
    load = asyncio.run(rolled(project, tmp_path))
    print(load.by_version(), f"{len(load.errors)} errors")
    assert load.errors == []
    assert (tmp_path / "log").read_text().splitlines() == [
        "apply -k deploy/kubernetes",
        "rollout status deployment/two-versions",
    ] * 2
