"""What the load of `make bench` adds to the latency it measures: `python benchmarks/load_cost.py [ROUNDS]`.

One caller, on one Triton that serves the default project: bench's own caller, a bare loop with tritonclient, and perf_analyzer where it is
installed, in turn. The p50 of bench should be within 5 % of perf_analyzer's, or of the bare loop's.
"""

from __future__ import annotations

import importlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import copier
from tritonclient import grpc  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 1.0
Loads = dict[str, Callable[[], float]]


def generate(folder: Path) -> None:
    """The default project, with its model files, and its modules where they can be imported."""
    copier.run_copy(str(ROOT), folder, vcs_ref="HEAD", defaults=True, quiet=True)
    subprocess.run([sys.executable, "-m", "tools.repository"], cwd=folder, check=True)
    sys.path[:0] = [str(folder), str(folder / "src")]


def loads(server: Any) -> Loads:
    """By name, what measures the p50 of one caller in µs."""
    requests = importlib.import_module("tools.load.requests")
    perf_analyzer = importlib.import_module("tools.load.perf_analyzer")
    levels = importlib.import_module("tools.load.levels")
    rows = list(requests.sample_rows())
    bench = levels.Bench(server, rows, seconds=SECONDS)
    found: Loads = {
        "make bench": lambda: float(bench.by_callers(1).load.p50_us),
        "bare loop": lambda: bare_loop(server, rows, requests),
    }
    if perf_analyzer.installed():
        found["perf_analyzer"] = lambda: float(
            perf_analyzer.measure(server.address, rows, 1, 1, SECONDS).p50_us
        )
    return found


def bare_loop(server: Any, rows: list[Any], requests: Any) -> float:
    inputs = [[tensor(n, a, requests.INPUTS[n].datatype) for n, a in r.items()] for r in rows]
    latencies, end = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for tensors in inputs:
            start = time.perf_counter()
            server.client.infer(requests.MODEL, tensors)
            latencies.append(time.perf_counter() - start)
    return statistics.median(latencies) * 1e6


def tensor(name: str, array: Any, datatype: str) -> Any:
    found = grpc.InferInput(name, list(array.shape), datatype)
    found.set_data_from_numpy(array)
    return found


def measured(found: Loads, rounds: int) -> dict[str, list[float]]:
    """In turn, each round in another order, so that what else the machine does meets all of them."""
    p50s: dict[str, list[float]] = {name: [] for name in found}
    for i in range(rounds):
        for name in list(found)[:: (-1) ** i]:
            p50s[name].append(found[name]())
        print(*(f"{name}: {values[-1]:.0f} us" for name, values in p50s.items()), sep=", ")
    return p50s


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder, "p"))
        server = importlib.import_module("tools.load.server")
        with server.under_load() as served:
            p50s = measured(loads(served), rounds)
    print("\n| load | p50, us | make bench is |\n|---|---|---|")
    for name, values in p50s.items():
        ratios = [mine / theirs for mine, theirs in zip(p50s["make bench"], values, strict=True)]
        print(
            f"| {name} | {statistics.median(values):.0f} | {statistics.median(ratios):.3f} of it |"
        )


if __name__ == "__main__":
    main()
