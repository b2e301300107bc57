"""Throughput and latency of the ensemble under growing load, and where the time goes.

In a shell: `python -m tools.bench --help`
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from triton_ensemble.bench import options, report
from triton_ensemble.bench.figures import Level, best
from triton_ensemble.bench.growth import growing
from triton_ensemble.bench.levels import Bench
from triton_ensemble.bench.requests import sample_rows
from triton_ensemble.bench.saved import Run, make_writable
from triton_ensemble.bench.server import ServerUnderLoad, cores, under_load
from triton_ensemble.project import ENSEMBLE, REPOSITORY, ROOT
from triton_ensemble.tune.written import shared_steps

FOLDER = ROOT / "bench"


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
            raise RuntimeError(report.unanswered(level, bench.seconds))
    return found


def summarise(found: Sequence[Level]) -> None:
    print(*report.errors(found), "", sep="\n")
    shown = [found[0], *([best(found)] if best(found) is not found[0] else [])]
    print(
        *report.model_rows(shown), "", report.bottleneck(found, shared_steps(REPOSITORY)), sep="\n"
    )


def save(measured: Run, base: Run | None, path: Path) -> None:
    """The figures as path.json, and where matplotlib is installed, a picture of them as path.png."""
    figures, picture = (path.with_name(path.name + suffix) for suffix in (".json", ".png"))
    measured.write(figures)
    print(f"\n{os.path.relpath(figures)}")
    try:
        from triton_ensemble.bench import plot

        rows = f", {measured.rows} rows a request" if measured.rows > 1 else ""
        old = base.levels if base else []
        plot.draw(picture, f"{measured.ensemble}{rows}", measured.levels, old)
        print(os.path.relpath(picture))
    except ModuleNotFoundError as error:
        print(f"no picture: {error.name} is not installed; `make bench` installs it")


def parsed() -> Any:
    parser = options.parser("python -m tools.bench", __doc__)
    parser.add_argument("--base", type=Path, help="the JSON of an earlier run to compare with")
    parser.add_argument(
        "--seconds", type=options.positive, default=5.0, help="of each level (default: 5)"
    )
    parser.add_argument(
        "--rows", type=options.count, default=1, help="of each request (default: 1)"
    )
    levels = "the levels (default: 1, 2, 4 ...)"
    parser.add_argument("--concurrency", type=options.count, nargs="+", default=[], help=levels)
    path = FOLDER / time.strftime("%Y-%m-%d-%H%M%S")
    parser.add_argument("--out", type=Path, default=path, help="files to write, without a suffix")
    return parser.parse_args()


def earlier(path: Path | None, rows: int) -> Run | None:
    """The run to compare with; ValueError if it can't be."""
    if path is None:
        return None
    base = Run.read(path)
    base.check(path, ENSEMBLE, rows)
    return base


def run(server: ServerUnderLoad, given: Any, base: Run | None) -> None:
    requests = list(sample_rows(given.rows))
    bench = Bench(server, requests, seconds=given.seconds, rows=given.rows)
    load = "perf_analyzer" if bench.perf_analyzer else "this program's callers"
    about = f"{ENSEMBLE} at {server.url}, {given.rows} rows a request"
    print(f"{about}, {given.seconds:g} s a level, load of {load}")
    measured = Run(
        ensemble=ENSEMBLE,
        rows=given.rows,
        seconds=given.seconds,
        load=load,
        server="local" if server.local else server.url,
        cores=cores() if server.local else None,
        levels=levels(bench, given.concurrency),
    )
    summarise(measured.levels)
    if base:
        print("", *report.comparison(base, measured), sep="\n")
    save(measured, base, given.out)


def main() -> None:
    given = parsed()
    try:
        base = earlier(given.base, given.rows)
        make_writable(given.out.parent)
        with under_load() as server:
            run(server, given, base)
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
