"""Look for better settings by measuring them, and write the best ones into pipeline.yml.

The command tries one setting after the other: the instances, batching and max_batch_size of each step, and
the max_queue_delay_us of all. It writes only settings that are better by more than noise and pass the
project's live tests. If none are, pipeline.yml stays as it is. The next command applies it.

The command starts a local Triton, which loads the models whose config changes. TRITON_URL=grpc://host:port
names a server that already runs, in explicit model control mode.
"""

from __future__ import annotations

import math
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

import yaml

from triton_ensemble.compile.file import replace, set_values
from triton_ensemble.facts.config.repository import list_fused_steps, model_configs
from triton_ensemble.facts.progress import Progress
from triton_ensemble.facts.project import Project
from triton_ensemble.measure import options
from triton_ensemble.measure.concurrency import Probe, level_to_tune, window_s
from triton_ensemble.measure.figures import Load
from triton_ensemble.measure.levels import Bench, cores
from triton_ensemble.measure.requests import sample_rows
from triton_ensemble.measure.server import ServerUnderLoad, serve_for_load
from triton_ensemble.measure.trials import (
    Objective,
    RefusedError,
    TooShortError,
    table,
)
from triton_ensemble.measure.tune_search import Search
from triton_ensemble.measure.tune_settings import (
    Setting,
    Settings,
    describe,
    edits,
    tunable,
)
from triton_ensemble.measure.tuned_server import TunedServer
from triton_ensemble.serve.local.process import interruptible

DEFAULT_S = 300
LEVELS = 100  # the time is enough for so many of the levels that the concurrency is chosen from
DECOUPLED = "a decoupled pipeline does not have one latency to tune for: `make bench` measures its responses"
REMOTE_CORES = 8  # assumed of a server that runs elsewhere


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of `triton-ensemble tune`."""
    add = parser.add_argument
    seconds = f"the most seconds to take (default: {DEFAULT_S})"
    add("--time", type=options.positive, default=DEFAULT_S, metavar="S", help=seconds)
    p99 = "look for the lowest p50 with at most this p99, instead of the highest throughput"
    add("--p99", type=options.positive, metavar="MS", help=p99)
    callers = "callers (default: the fewest that reach the highest throughput; with --p99, the most within it)"
    add("--concurrency", type=options.count, metavar="N", help=callers)
    add("--rows", type=options.count, default=1, help="rows of each request (default: 1)")


def run(arguments: Namespace) -> int:
    """Tune the project in the working directory. Return 1 if that is impossible."""
    start, project = time.monotonic(), Project.load(Path.cwd())
    explicit = ("--model-control-mode=explicit", "--load-model=*")
    interruptible()
    try:
        if project.decoupled:
            raise ValueError(DECOUPLED)
        with serve_for_load(project, *explicit) as server:
            _tune(server, arguments, start + arguments.time)
    except TooShortError as error:
        enough = math.ceil(max(DEFAULT_S, 2 * arguments.time, error.needed_s))
        short = f"TIME={arguments.time:g} is too short; give TIME={enough}"
        print(f"Nothing was measured: {short}", file=sys.stderr)
        return 1
    except (OSError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _tune(server: ServerUnderLoad, arguments: Namespace, deadline: float) -> None:
    """Search until `deadline`, print the trials, and write pipeline.yml if better settings were measured."""
    project = server.project
    path, written = project.root / "pipeline.yml", model_configs(project.repository)
    text = path.read_bytes().decode()
    pipeline, fused = yaml.safe_load(text), list_fused_steps(project.repository)
    settings = tunable(pipeline, written, fused, cores() if server.local else REMOTE_CORES)
    if not settings:
        raise RuntimeError(
            "no step has a setting to tune: see instances and batching in pipeline.yml"
        )
    bench = Bench(server, list(sample_rows(project, arguments.rows)))
    progress = Progress("smoke tests", max(deadline - time.monotonic(), 1))
    with TunedServer(bench, pipeline, written, settings) as tuned, progress:
        search, best = _search(tuned, settings, arguments, deadline, progress)
    _report(search, best, settings, arguments)
    _write(path, best, text)


def _search(
    tuned: TunedServer,
    settings: Sequence[Setting],
    arguments: Namespace,
    deadline: float,
    progress: Progress,
) -> tuple[Search, Settings]:
    """Return the search and the best settings, or raise TooShortError if it could compare nothing."""
    deadline -= _time_smoke_test(tuned)  # better settings have to pass it too
    objective = Objective(arguments.p99 and arguments.p99 * 1000)
    probe = Probe(lambda n, s: tuned.measure({}, n, s), deadline, min(arguments.time / LEVELS, 1.0))
    level = level_to_tune(probe, objective, arguments.concurrency)
    callers = level.load.concurrency

    def measure(settings: Settings, seconds: float) -> Load:
        progress.show(describe(settings))
        return tuned.measure(settings, callers, seconds).load

    progress.print(f"Tuning {len(settings)} settings for the {objective}, {callers} callers")
    search = Search(objective, measure, tuned.smoke_test, deadline, window_s(level), progress.print)
    best = search.run(settings)
    if not search.tried:
        raise TooShortError(arguments.time + search.seconds(settings))
    return search, best


def _time_smoke_test(tuned: TunedServer) -> float:
    """Return the seconds of the smoke tests, or raise RuntimeError if the present settings fail them."""
    start = time.monotonic()
    try:
        tuned.smoke_test({})
    except RefusedError as error:
        raise RuntimeError(f"with the present settings: {error}; see `make test`") from None
    return time.monotonic() - start


def _report(
    search: Search, best: Settings, settings: Sequence[Setting], arguments: Namespace
) -> None:
    print("", *table(search.trials, best), "", sep="\n")
    if arguments.p99 and not search.objective.is_met(*search.trial(best).loads):
        print(f"The best settings do not keep to a p99 of {arguments.p99:g} ms.")
    if untried := [setting for setting in settings if setting not in search.tried]:
        enough = math.ceil((arguments.time + search.seconds(untried)) / 10) * 10
        count = f"{len(untried)} of {len(settings)} settings were not tried"
        print(f"{count}: not enough time was left. TIME={enough} should be enough for all of them.")


def _write(path: Path, best: Settings, text: str) -> None:
    """Write settings to pipeline.yml, or raise ValueError if it no longer has the `text` that was tuned."""
    if not best:
        print("No other settings are better by more than noise.")
        print("pipeline.yml stays as it is.")
        return
    if path.read_bytes().decode() != text:
        raise ValueError(
            f"pipeline.yml has changed in the meantime; write into it: {describe(best)}"
        )
    replace(path, set_values(text, edits(best)))
    print(f"Written into pipeline.yml: {describe(best)}")
    print("The next command applies it.")
