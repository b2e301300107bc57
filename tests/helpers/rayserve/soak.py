"""Many calls of a replica's Triton, some of them bad: all answered as they must be, and nothing left behind.

It does what a replica does, without Ray: starts Triton, and calls it by the gateway's connection.
--in-process needs NVIDIA's Python API, see scripts/bindings.py.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rayserve.in_process import Image

from triton_ensemble.client import package
from triton_ensemble.project import Project
from triton_ensemble.rayserve import triton
from triton_ensemble.server import environment

WARM, BAD = 3000, 0.01
PERIOD_S = 1.0
MIB = 1 << 20
MOST = 3 * MIB  # that a process may grow by: its allocator's doing


class Usage(NamedTuple):
    """Bytes by process, open files of all of them together, and regions of shared memory."""

    memory: dict[str, int]
    files: int
    regions: int


def usage() -> Usage:
    """Return what this process has, which is the replica, and those that it started."""
    memory, files, prefixes = Counter[str](), 0, set[str]()
    for folder in _processes():
        command, *words = (folder / "cmdline").read_text().split("\0")
        prefixes |= {word.rpartition("-")[0] for word in words if word.startswith("triton-")}
        lines = (folder / "status").read_text().splitlines()
        anonymous = sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
        name = Path(command).name.removeprefix("triton_")
        memory["replica" if folder.name == str(os.getpid()) else name] += 1024 * anonymous
        files += len([*(folder / "fd").iterdir()])
    regions = [one for prefix in prefixes for one in Path("/dev/shm").glob(f"{prefix}-*")]
    return Usage(dict(memory), files, len(regions))


def _processes() -> list[Path]:
    folders = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
    parents = {int(path.name): _parent(path) for path in folders}
    own = {os.getpid()}
    while more := {one for one, parent in parents.items() if parent in own} - own:
        own |= more
    return [Path(f"/proc/{one}") for one in own]


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


class Report(NamedTuple):
    """How many calls had which end, what was used over the time from warm to end, and seconds."""

    ends: Counter[str]
    used: list[Usage]
    seconds: float

    def grown(self, name: str) -> int:
        """Return the bytes between the most of the first half, and of the second."""
        of_it = [used.memory.get(name, 0) for used in self.used]
        half = len(of_it) // 2
        return max(of_it[half:]) - max(of_it[:half])

    def problems(self) -> Iterator[str]:
        """Yield what is not as it must be."""
        yield from (end for end in self.ends if end.startswith("wrong"))
        first, last = self.used[0], self.used[-1]
        for name in last.memory:
            if (grown := self.grown(name)) > MOST:
                yield f"{name} has grown by {grown / MIB:.1f} MiB"
        if (last.files, last.regions) != (first.files, first.regions):
            yield f"files and regions: {first.files, first.regions} before, {last.files, last.regions} at the end"


async def asked(client: Any, connection: Any, value: int) -> str:
    """Return how a call ended: answered, refused by the client or the step, or wrong, with what came."""
    given = np.full((1, 1), value, np.float32)
    try:
        if value == 0:  # of a wrong shape: for neither the step nor the server
            await connection.infer({"INPUT": np.zeros((1, 3), np.float32)})
        answer = await connection.send({"INPUT": given})
    except client.InvalidInput as error:
        return "refused" if value <= 0 else f"wrong: {error}"
    except client.InferenceError as error:
        return f"wrong: {error}"
    right = answer["OUTPUT"].tolist() == [[2.0 * value]] and value > 0
    return "answered" if right else f"wrong: {answer}"


async def calls(client: Any, connection: Any, count: int, seed: int) -> Counter[str]:
    numbers, ends = random.Random(seed), Counter[str]()
    for _ in range(count):
        value = numbers.randrange(1, 1000)
        bad = numbers.random() < BAD
        ends[await asked(client, connection, -value * (value % 2) if bad else value)] += 1
    return ends


async def soaked(server: triton.Triton, facts: Project, count: int, at_once: int) -> Report:
    client = package(facts)
    client.runtime.grpc_transport.in_process.update(server.connections)
    async with client.AsyncClient(server.grpc_url) as connection:
        await asyncio.gather(
            *(calls(client, connection, WARM // at_once, n) for n in range(at_once))
        )
        used, start = [usage()], time.perf_counter()

        async def watch() -> None:
            while True:
                await asyncio.sleep(PERIOD_S)
                used.append(usage())

        watching = asyncio.ensure_future(watch())
        each = count // at_once
        ends = await asyncio.gather(*(calls(client, connection, each, n) for n in range(at_once)))
        watching.cancel()
        return Report(sum(ends, Counter[str]()), [*used, usage()], time.perf_counter() - start)


@contextmanager
def replica(path: Path, *, in_process: bool) -> Iterator[tuple[triton.Triton, Project]]:
    """Start a Triton as a replica does."""
    image = Image(path) if in_process else None
    os.environ.update(image.variables if image else {})
    facts = Project.load(image.opt if image else path)
    try:
        with triton.choose_server(facts) as server:
            yield server, facts
    finally:
        if image:
            image.remove()


def _with_libraries() -> None:
    """Start anew, with the variable by which Triton's backends find their libraries: it is read as a program starts."""
    before = os.environ.get("LD_LIBRARY_PATH", "")
    if str(environment.site_packages()) not in before:
        libraries = environment.variables()["LD_LIBRARY_PATH"]
        own = {**os.environ, "LD_LIBRARY_PATH": libraries}
        os.execve(sys.executable, sys.orig_argv, own)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("project", type=Path)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--in-process", action="store_true")
    options = parser.parse_args()
    if options.in_process:
        _with_libraries()
    with replica(options.project, in_process=options.in_process) as (server, facts):
        print(f"{type(server).__name__}, {options.at_once} calls at once")
        report = asyncio.run(soaked(server, facts, options.calls, options.at_once))
    print(*(f"{count} {end}" for end, count in report.ends.most_common()), sep="\n")
    for name, last in report.used[-1].memory.items():
        first, grown = report.used[0].memory.get(name, 0) / MIB, report.grown(name) / MIB
        print(f"{name}: {first:.1f} MiB, at the end {last / MIB:.1f}, grown by {grown:.2f}")
    print(
        f"open files: {report.used[0].files}, at the end {report.used[-1].files}; regions of shared memory: {report.used[0].regions}, {report.used[-1].regions}"
    )
    print(f"{report.seconds:.0f} s")
    problems = [*report.problems()]
    print(*problems, sep="\n", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
