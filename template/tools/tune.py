# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Finds better settings for pipeline.yml by measuring them, and writes them there.

In a shell: `python -m tools.tune --help`
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import yaml

from tools.load.figures import best
from tools.load.levels import Bench, growing
from tools.load.requests import sample_rows
from tools.load.server import ServerUnderLoad, cores, under_load
from tools.project import REPOSITORY, ROOT
from tools.tuning.knobs import Settings, changes, describe, knobs
from tools.tuning.pipeline_file import with_values
from tools.tuning.search import Objective, RefusedError, Search, table
from tools.tuning.tuned_server import EXPLICIT, TunedServer
from tools.tuning.written import configs, shared_steps

PIPELINE = ROOT / "pipeline.yml"
WINDOWS = 300  # the time given is so many of the shortest measurements


def parsed() -> Any:
    parser = argparse.ArgumentParser(prog="python -m tools.tune", description=__doc__)
    parser.add_argument("--time", type=float, default=300, help="seconds it may take (300)")
    parser.add_argument("--p99", type=float, help="ms: lowest p50 with a p99 of at most so much")
    parser.add_argument("--concurrency", type=int, help="callers; default: where throughput peaks")
    parser.add_argument("--rows", type=int, default=1, help="of each request (1)")
    return parser.parse_args()


def tune(server: ServerUnderLoad, options: Any, deadline: float) -> None:
    """Searches, shows what was measured, and writes pipeline.yml where better settings were found."""
    pipeline, written = yaml.safe_load(PIPELINE.read_text()), configs(REPOSITORY)
    found = knobs(pipeline, written, shared_steps(REPOSITORY), cores() if server.local else 8)
    if not found:
        sys.exit("no step has a setting to tune: see instances and batching in pipeline.yml")
    bench = Bench(server, list(sample_rows(options.rows)), seconds=1.0, rows=options.rows)
    callers = options.concurrency or peak(bench)
    objective = Objective(options.p99 and options.p99 * 1000)
    print(f"Tuning {len(found)} settings for the {objective}, {callers} callers", flush=True)
    with TunedServer(bench, pipeline, written, found, callers) as tuned:
        check(tuned)
        window = min(max(options.time / WINDOWS, 0.3), 5.0)
        search = Search(objective, tuned.measure, tuned.smoke_test, deadline, window, _say)
        kept = search.run(found)
    print("", *table(search.trials, kept), "", sep="\n")
    if not any(objective.met(load) for load in search.trial(kept).loads):
        print(f"No measurement of the best settings has a p99 of at most {options.p99:g} ms.")
    write(kept)


def peak(bench: Bench) -> int:
    return best(list(growing(bench.by_callers))).load.concurrency


def check(tuned: TunedServer) -> None:
    """The present settings must pass the smoke tests, or none could."""
    try:
        tuned.smoke_test({})
    except RefusedError as error:
        sys.exit(f"with the present settings: {error}; see `make test`")


def write(kept: Settings) -> None:
    if not kept:
        print("Nothing beats the present settings by more than noise: pipeline.yml stays as it is.")
        return
    PIPELINE.write_text(with_values(PIPELINE.read_text(), changes(kept)))
    print(f"Written to pipeline.yml: {describe(kept)}")
    print("Commit it, then run `make update`.")


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    options = parsed()
    deadline = time.monotonic() + options.time
    try:
        with under_load(*EXPLICIT) as server:
            tune(server, options, deadline)
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
