"""The gate on speed: the project beside that of an earlier commit, measured in turn by the same requests."""

from __future__ import annotations

import math
import statistics
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import environ
from pathlib import Path

from triton_ensemble.facts.progress import Progress
from triton_ensemble.facts.project import Project, ProjectError
from triton_ensemble.measure.closed_loop import percentiles_us
from triton_ensemble.measure.commits import find_base, write_files
from triton_ensemble.measure.figures import Load
from triton_ensemble.measure.levels import WARM_UP_S, Bench
from triton_ensemble.measure.paired import FEWEST, Comparison, compare
from triton_ensemble.measure.requests import sample_rows
from triton_ensemble.measure.runs import Run
from triton_ensemble.measure.saturation import saturation_point
from triton_ensemble.measure.sides import serve_side

CALLERS = 8
# Short windows in quick turns: what else a machine does then disturbs both sides of a pair alike.
SHORTEST_S = 0.3
FIRST_S, AGAIN_S = 2.0, 0.1  # a first load, which only warms up, and the warm-up before each window
REQUESTS = 100  # the p99 of fewer is their slowest
AGAIN = 'make bench ARGS="--out bench/base"'
Measured = tuple[Load, list[float]]  # a window, and the seconds that each answer took
Pair = tuple[Measured, Measured]  # of the base, and of the project as it is


def measure_gate(project: Project, arguments: Namespace) -> int:
    """Compare the project with its base, and print that. Return 1 if it is slower.

    Raise ValueError or RuntimeError if that can't be measured.
    """
    if environ.get("TRITON_URL") or environ.get("TRITON_GRPC_URL"):
        raise ValueError("GATE starts both servers on this machine; unset TRITON_URL")
    commit, callers = read_base(project, arguments)
    print(f"Base: commit {commit[:9]}", flush=True)
    with _serve_both(project, commit, arguments) as sides:
        seconds, pairs = _choose_windows(sides, callers, arguments)
        windows = f"{pairs} pairs of {seconds:.2g} s"
        print(f"{callers} callers, {arguments.rows} rows a request, {windows}", flush=True)
        with Progress("Measuring both", 2 * pairs * (AGAIN_S + seconds)):
            measured = [*_measure_pairs(sides, callers, seconds, pairs)]
    print(f"{'':12} {'base':>10} {'now':>10} {'ratio':>7}  interval of the ratio")
    print(*(comparisons := _compare(measured)), sep="\n")
    return int(any(each.is_worse for each in comparisons))


def read_base(project: Project, arguments: Namespace) -> tuple[str, int]:
    """Return the commit that GATE names, by a run's file or as the merge base with a revision, and the callers."""
    gate, path = arguments.gate, Path(arguments.gate)
    [callers, *more] = arguments.concurrency or [0]
    if more:
        raise ValueError("GATE compares at one number of callers; write --concurrency N")
    if not path.is_file():
        if path.suffix == ".json":
            raise ValueError(f"GATE={gate}: not found; measure the base at its commit: {AGAIN}")
        return find_base(project.root, gate), callers or CALLERS
    run = Run.read(path)
    run.check(path, project.ensemble, arguments.rows)
    if not run.commit:
        what = "names no commit, because files had changes or the server was elsewhere"
        raise ValueError(f"GATE={gate}: {what}; commit, unset TRITON_URL, and run: {AGAIN}")
    commit = find_base(project.root, gate, run.commit)
    return commit, callers or saturation_point(run.levels).load.concurrency


@contextmanager
def _serve_both(
    project: Project, commit: str, arguments: Namespace
) -> Iterator[tuple[Bench, Bench]]:
    """Serve the base and the project, and yield what measures them, with the same requests."""
    requests = [*sample_rows(project, arguments.rows)]
    name = f"GATE={arguments.gate}: commit {commit[:9]}"
    with tempfile.TemporaryDirectory(prefix="gate-", ignore_cleanup_errors=True) as temporary:
        folder, root = Path(temporary), Path(temporary, "base")
        try:
            write_files(project, commit, root)
            _check_inputs(project, Project.load(root))
        except (ProjectError, ValueError) as error:
            raise ValueError(f"{name}: {error}") from error
        with (
            serve_side(project, root, folder, name) as old,
            serve_side(project, project.root, folder, str(project.root)) as new,
        ):
            yield Bench(old, requests), Bench(new, requests)


def _check_inputs(project: Project, base: Project) -> None:
    """Raise ValueError if no request fits both."""
    new, old = (
        ({each.name: each.datatype for each in p.inputs}, p.batched, p.decoupled, p.sequential)
        for p in (project, base)
    )
    if new != old:
        names = ", ".join(f"{name} {datatype}" for name, datatype in old[0].items())
        raise ValueError(f"takes other requests ({names}); choose a newer base")


def _choose_windows(
    sides: Sequence[Bench], callers: int, arguments: Namespace
) -> tuple[float, int]:
    """Return the seconds and the number of windows, of about a minute a side together, after a warm-up."""
    warm = [_measure(side, callers, FIRST_S, WARM_UP_S)[1] for side in sides]
    seconds = arguments.seconds or max(SHORTEST_S, 3 * max(map(statistics.median, warm)))
    return seconds, max(FEWEST, arguments.pairs or max(20, min(200, int(60 / seconds))))


def _measure_pairs(
    sides: tuple[Bench, Bench], callers: int, seconds: float, pairs: int
) -> Iterator[Pair]:
    """Yield each pair. Every second pair begins with the project, so that drift does not count."""
    for number in range(pairs):
        turn = 1 if number % 2 == 0 else -1
        old, new = [_measure(side, callers, seconds) for side in sides[::turn]][::turn]
        yield old, new


def _measure(side: Bench, callers: int, seconds: float, warm_up_s: float = AGAIN_S) -> Measured:
    load, latencies_s = side.measure_callers(callers, seconds, warm_up_s)
    if load.failed:
        failed = " ".join(f"{count} failed: {text}" for text, count in load.errors.items())
        raise RuntimeError(f"{side.server.project.root.name}: {failed}")
    if not latencies_s:
        raise RuntimeError(f"No request was answered within {seconds:g} s: give more --seconds.")
    return load, latencies_s


def _compare(pairs: Sequence[Pair]) -> list[Comparison]:
    """Compare throughput by windows, and p99 by groups of neighbouring windows, which have more requests."""
    base, now = ([pair[side] for pair in pairs] for side in (0, 1))
    fewest = statistics.median(len(latencies_s) for pair in pairs for _, latencies_s in pair)
    size = min(math.ceil(REQUESTS / fewest), len(pairs) // FEWEST)
    rates = ([load.throughput for load, _ in side] for side in (base, now))
    times = (_list_p99_ms(side, size) for side in (base, now))
    return [compare("requests/s", *rates), compare("p99 ms", *times)]


def _list_p99_ms(side: Sequence[Measured], size: int) -> list[float]:
    """Return the p99 of each `size` windows in a row."""
    groups = (side[at : at + size] for at in range(0, len(side) - size + 1, size))
    return [
        percentiles_us([s for _, latencies_s in g for s in latencies_s], 99)[0] / 1e3
        for g in groups
    ]
