"""Measure the ensemble under increasing load, and say what limits it.

Requests are the rows of samples/, sent over gRPC. Each caller sends its next request after the response to
the last one. There are 1, 2, 4 ... callers, until three levels in a row do not raise throughput. The command
prints throughput and latency of each level, the queue and compute time of each model, and a sentence on the
bottleneck. bench/DATE-TIME.json has all figures.

The command starts a local Triton. TRITON_URL=grpc://host:port names a server that already runs.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from triton_ensemble.facts.config.repository import list_fused_steps
from triton_ensemble.facts.progress import Progress
from triton_ensemble.facts.project import Project
from triton_ensemble.measure import options, plot, report
from triton_ensemble.measure.bottleneck import bottleneck, describe_rare
from triton_ensemble.measure.commits import read_commit
from triton_ensemble.measure.figures import Level, best
from triton_ensemble.measure.gate import measure_gate
from triton_ensemble.measure.levels import WARM_UP_S, Bench, cores
from triton_ensemble.measure.open_dims import apart
from triton_ensemble.measure.requests import sample_rows
from triton_ensemble.measure.runs import Run
from triton_ensemble.measure.saturation import measure_saturation
from triton_ensemble.measure.server import ServerUnderLoad, serve_for_load

SECONDS = 5.0
SUMMARIES = (
    "--metrics-config=summary_latencies=true",
    "--metrics-config=summary_quantiles=0.5:0.01,0.99:0.001",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of `triton-ensemble bench`."""
    add = parser.add_argument
    seconds = "time of each level (default: 5), or each window of --gate"
    add("--seconds", type=options.positive, help=seconds)
    add("--rows", type=options.count, default=1, help="rows of each request (default: 1)")
    levels = "callers of each level (default: 1 2 4 ... until saturation)"
    add("--concurrency", type=options.count, nargs="+", default=[], metavar="N", help=levels)
    add("--base", type=Path, metavar="FILE.json", help="an earlier run to compare with")
    gate = "fail if this is slower than the commit of an earlier run, or than the merge base with a revision"
    add("--gate", metavar="FILE.json|REVISION", help=gate)
    add(
        "--pairs",
        type=options.count,
        metavar="N",
        help="windows of --gate on each side (20 to 200)",
    )
    add("--out", type=Path, metavar="PATH", help="write PATH.json (default: bench/DATE-TIME)")
    add("--plot", type=Path, metavar="FILE.png", help="draw the levels; needs matplotlib")


def run(arguments: Namespace) -> int:
    """Measure the project in the working directory. Return 1 if that is impossible."""
    project = Project.load(Path.cwd())
    try:
        if arguments.gate:
            return measure_gate(project, arguments)
        base = _base(arguments, project)
        out = _writable(arguments.out or project.root / "bench" / time.strftime("%Y-%m-%d-%H%M%S"))
        if arguments.plot:
            _check_plot(arguments.plot)
        with serve_for_load(project, *SUMMARIES) as server:
            measured = _measure(server, arguments)
            _report(project, measured, base)
            for line in apart(measured, server.configs):
                print(line)
            _save(measured, base, out.with_name(f"{out.name}.json"), arguments.plot)
    except (OSError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _base(arguments: Namespace, project: Project) -> Run | None:
    if arguments.base is None:
        return None
    base = Run.read(arguments.base)
    base.check(arguments.base, project.ensemble, arguments.rows)
    return base


def _writable(path: Path) -> Path:
    """Return `path`, or raise OSError before anything is measured if its folder can't be written to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{path.parent}: can't be written to; name another by --out")
    return path


def _check_plot(path: Path) -> None:
    _writable(path)
    if importlib.util.find_spec("matplotlib") is None:
        raise RuntimeError(
            "--plot needs matplotlib, which is not installed: uv pip install matplotlib, or without uv "
            f"{sys.executable} -m pip install matplotlib"
        )


def _measure(server: ServerUnderLoad, arguments: Namespace) -> Run:
    """Return the figures of all levels, each printed as soon as it is measured."""
    project, seconds, rows = server.project, arguments.seconds or SECONDS, arguments.rows
    bench = Bench(server, list(sample_rows(project, rows)))
    print(f"{project.ensemble} at {server.url}, {rows} rows a request, {seconds:g} s a level")
    print(report.head(decoupled=project.decoupled))
    return Run(
        ensemble=project.ensemble,
        rows=rows,
        seconds=seconds,
        server="local" if server.local else server.url,
        cores=cores() if server.local else None,
        commit=read_commit(project.root) if server.local else "",
        levels=measure_levels(bench, arguments.concurrency, seconds),
    )


def measure_levels(bench: Bench, concurrencies: Sequence[int], seconds: float) -> list[Level]:
    """Measure and print levels, up to a level without an answered request.

    Raise RuntimeError if that is the first level.
    """

    def measure(concurrency: int) -> Level:
        with Progress(f"{concurrency:11} callers", WARM_UP_S + seconds):
            return bench.level(concurrency, seconds)

    levels = []
    for level in map(measure, concurrencies) if concurrencies else measure_saturation(measure):
        print(report.row(level), flush=True)
        if level.load.throughput:
            levels.append(level)
        elif levels:
            print(report.explain_unanswered(level, seconds))
            break
        else:
            raise RuntimeError(report.explain_unanswered(level, seconds))
    return levels


def _report(project: Project, measured: Run, base: Run | None) -> None:
    levels = measured.levels
    shown = [levels[0], *([best(levels)] if best(levels) is not levels[0] else [])]
    print(*report.errors(levels), "", sep="\n")
    print(*report.model_rows(shown), "", sep="\n")
    print(bottleneck(levels, list_fused_steps(project.repository)), *describe_rare(levels[0]))
    if base:
        print("", *report.comparison(base, measured), sep="\n")


def _save(measured: Run, base: Run | None, figures: Path, picture: Path | None) -> None:
    measured.write(figures)
    print(f"\n{os.path.relpath(figures)}")
    if picture:
        rows = f", {measured.rows} rows a request" if measured.rows > 1 else ""
        old = base.levels if base else []
        plot.draw(picture, f"{measured.ensemble}{rows}", measured.levels, old)
        print(os.path.relpath(picture))
