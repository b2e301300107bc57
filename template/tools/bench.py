# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Throughput and latency of the ensemble under growing load, and where the time goes.

In a shell: `python -m tools.bench --help`
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.load import report
from tools.load.figures import Level, best
from tools.load.levels import Bench, growing
from tools.load.requests import sample_rows
from tools.load.server import ServerUnderLoad, cores, under_load
from tools.project import ENSEMBLE, ROOT

FOLDER = ROOT / "bench"
DECOUPLED = "Decoupled models answer over a gRPC stream only: `make bench` can't measure them."


def levels(bench: Bench, concurrencies: Sequence[int]) -> list[Level]:
    """Measures and prints them, each as soon as it is known; without any given, until they stop growing.

    RuntimeError where no request is answered.
    """
    print(report.HEAD)
    found = []
    for level in map(bench.level, concurrencies) if concurrencies else growing(bench.level):
        print(report.row(level), flush=True)
        found.append(level)
        if not level.load.throughput:
            raise RuntimeError("\n".join(["No request was answered.", *report.errors([level])]))
    return found


def summarise(found: Sequence[Level], old: Sequence[Level]) -> None:
    print(*report.errors(found), "", sep="\n")
    shown = [found[0], *([best(found)] if best(found) is not found[0] else [])]
    print(*report.model_rows(shown), "", report.bottleneck(found), sep="\n")
    if old:
        print("", *report.comparison(old, found), sep="\n")


def save(bench: Bench, found: Sequence[Level], old: Sequence[Level], path: Path) -> None:
    """The figures as path.json, and where matplotlib is installed, a picture of them as path.png."""
    about = {
        "ensemble": ENSEMBLE,
        "server": bench.server.url,
        "cores": cores() if bench.server.local else None,
        "load": "perf_analyzer" if bench.perf_analyzer else "tools.load.closed_loop",
        "seconds": bench.seconds,
        "rows": bench.rows,
        "levels": [dataclasses.asdict(level) for level in found],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(about, indent=2) + "\n")
    print(f"\n{shown(path.with_suffix('.json'))}")
    try:
        from tools.load import plot

        rows = f", {bench.rows} rows a request" if bench.rows > 1 else ""
        plot.draw(path.with_suffix(".png"), f"{ENSEMBLE}{rows}", found, old)
        print(shown(path.with_suffix(".png")))
    except ModuleNotFoundError as error:
        print(f"no picture: {error.name} is not installed; `make bench` installs it")


def shown(path: Path) -> str:
    return os.path.relpath(path)


def saved_levels(path: Path | None) -> list[Level]:
    """Those of an earlier run; ValueError if the file is of none."""
    if path is None:
        return []
    try:
        return [Level.of(level) for level in json.loads(path.read_text())["levels"]]
    except (KeyError, OSError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: is of no earlier `make bench`: {error}") from error


def parsed() -> Any:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--base", type=Path, help="the JSON of an earlier run to compare with")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each level (default: 5)")
    parser.add_argument("--rows", type=int, default=1, help="of each request (default: 1)")
    parser.add_argument(
        "--concurrency", type=int, nargs="+", default=[], help="the levels (default: 1, 2, 4 ...)"
    )
    path = FOLDER / time.strftime("%Y-%m-%d-%H%M%S")
    parser.add_argument("--out", type=Path, default=path, help="files to write, without a suffix")
    return parser.parse_args()


def run(server: ServerUnderLoad, options: Any, old: Sequence[Level]) -> None:
    requests = list(sample_rows(options.rows))
    bench = Bench(server, requests, seconds=options.seconds, rows=options.rows)
    load = "perf_analyzer" if bench.perf_analyzer else "this program's callers"
    about = f"{ENSEMBLE} at {server.url}, {options.rows} rows a request"
    print(f"{about}, {options.seconds:g} s a level, load of {load}")
    found = levels(bench, options.concurrency)
    summarise(found, old)
    save(bench, found, old, options.out)


def main() -> None:
    options = parsed()
    try:
        old = saved_levels(options.base)
        with under_load() as server:
            if server.decoupled:
                sys.exit(DECOUPLED)
            run(server, options, old)
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
