"""What the load of `make bench` adds to the latency it measures: `python -m benchmarks.load_cost [ROUNDS]`.

One caller, on one Triton that serves the default project: bench's own caller and a bare loop with
tritonclient, in turn. The p50 of bench should be within 5 % of the bare loop's.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import copier
from tritonclient import grpc  # type: ignore[import-untyped]

from benchmarks.generation import template
from triton_ensemble.bench.levels import Bench
from triton_ensemble.bench.requests import Inputs, sample_rows
from triton_ensemble.bench.server import ServerUnderLoad, serve_for_load
from triton_ensemble.project import Project

SECONDS = 1.0
Loads = dict[str, Callable[[], float]]


def generate(folder: Path) -> Project:
    """Return the default project, with its model files."""
    with tempfile.TemporaryDirectory() as source:
        copier.run_copy(template(Path(source)), folder, defaults=True, quiet=True)
    command = [sys.executable, "-m", "triton_ensemble", "repository"]
    subprocess.run(command, cwd=folder, check=True)
    return Project.load(folder)


def loads(server: ServerUnderLoad) -> Loads:
    """Return what measures the p50 of one caller (us), by name."""
    rows = list(sample_rows(server.project))
    bench = Bench(server, rows)
    return {
        "make bench": lambda: bench.level(1, SECONDS).load.p50_us,
        "bare loop": lambda: bare_loop(server, rows),
    }


def bare_loop(server: ServerUnderLoad, rows: Sequence[Inputs]) -> float:
    datatypes = {given.name: given.datatype for given in server.project.inputs}
    inputs = [[tensor(name, row[name], datatypes[name]) for name in row] for row in rows]
    latencies, end = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for tensors in inputs:
            start = time.perf_counter()
            server.client.infer(server.project.ensemble, tensors)
            latencies.append(time.perf_counter() - start)
    return statistics.median(latencies) * 1e6


def tensor(name: str, array: Any, datatype: str) -> Any:
    given = grpc.InferInput(name, list(array.shape), datatype)
    given.set_data_from_numpy(array)
    return given


def measured(loads: Loads, rounds: int) -> dict[str, list[float]]:
    """Measure in turn, each round in another order, so that what else the machine does meets all of them."""
    p50s: dict[str, list[float]] = {name: [] for name in loads}
    for i in range(rounds):
        for name in list(loads)[:: (-1) ** i]:
            p50s[name].append(loads[name]())
        print(*(f"{name}: {values[-1]:.0f} us" for name, values in p50s.items()), sep=", ")
    return p50s


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with (
        tempfile.TemporaryDirectory() as folder,
        serve_for_load(generate(Path(folder, "p"))) as server,
    ):
        p50s = measured(loads(server), rounds)
    print("\n| load | p50, us | make bench is |\n|---|---|---|")
    for name, values in p50s.items():
        ratios = [mine / theirs for mine, theirs in zip(p50s["make bench"], values, strict=True)]
        print(
            f"| {name} | {statistics.median(values):.0f} | {statistics.median(ratios):.3f} of it |"
        )


if __name__ == "__main__":
    main()
