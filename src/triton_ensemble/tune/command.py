"""Finds better settings for pipeline.yml by measuring them, and writes them there.

In a shell: `python -m tools.tune --help`
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import Any

import yaml

from triton_ensemble.bench import options
from triton_ensemble.bench.levels import Bench
from triton_ensemble.bench.requests import sample_rows
from triton_ensemble.bench.server import ServerUnderLoad, cores, under_load
from triton_ensemble.project import REPOSITORY, ROOT
from triton_ensemble.server.local_triton import interruptible
from triton_ensemble.tune.callers import Probe, level_to_tune, window_s
from triton_ensemble.tune.knobs import Knob, Settings, changes, describe, knobs
from triton_ensemble.tune.pipeline_file import replace, with_values
from triton_ensemble.tune.search import Search
from triton_ensemble.tune.trials import Objective, RefusedError, TooShortError, table
from triton_ensemble.tune.tuned_server import EXPLICIT, TunedServer
from triton_ensemble.tune.written import configs, shared_steps

PIPELINE = ROOT / "pipeline.yml"
DEFAULT_S = 300
LEVELS = 100  # the time given is so many of the levels from which the number of callers is chosen


def parsed() -> Any:
    parser = options.parser("python -m tools.tune", __doc__)
    parser.add_argument(
        "--time",
        type=options.positive,
        default=DEFAULT_S,
        help=f"seconds it may take ({DEFAULT_S})",
    )
    parser.add_argument(
        "--p99", type=options.positive, help="ms: lowest p50 with a p99 of at most so much"
    )
    callers = "default: as few as are served most, with --p99 as many as are served within it"
    parser.add_argument("--concurrency", type=options.count, help=f"callers; {callers}")
    parser.add_argument("--rows", type=options.count, default=1, help="of each request (1)")
    return parser.parse_args()


def tune(server: ServerUnderLoad, given: Any, start: float) -> None:
    """Searches, shows what was measured, and writes pipeline.yml where better settings were found."""
    text, written = PIPELINE.read_bytes().decode(), configs(REPOSITORY)
    pipeline = yaml.safe_load(text)
    found = knobs(pipeline, written, shared_steps(REPOSITORY), cores() if server.local else 8)
    if not found:
        sys.exit("no step has a setting to tune: see instances and batching in pipeline.yml")
    bench = Bench(server, list(sample_rows(given.rows)), seconds=1.0, rows=given.rows)
    objective = Objective(given.p99 and given.p99 * 1000)
    with TunedServer(bench, pipeline, written, found) as tuned:
        smoke_test_s = check(tuned)
        deadline = start + given.time - smoke_test_s  # better settings have to pass it too
        search, kept = searched(tuned, found, objective, given, deadline)
    print("", *table(search.trials, kept), "", sep="\n")
    if given.p99 and not objective.met(*search.trial(kept).loads):
        print(f"The best settings do not keep to a p99 of {given.p99:g} ms.")
    if untried := [knob for knob in found if knob not in search.tried]:
        enough = math.ceil((given.time + search.seconds(untried)) / 10) * 10
        count = f"{len(untried)} of {len(found)} settings were not tried"
        print(f"{count}: too little time is left. TIME={enough} should do for all of them.")
    write(kept, text)


def searched(
    tuned: TunedServer, found: Sequence[Knob], objective: Objective, given: Any, deadline: float
) -> tuple[Search, Settings]:
    """The search, and what it has found; TooShortError if it could compare nothing."""
    probe = Probe(lambda n, s: tuned.measure({}, n, s), deadline, min(given.time / LEVELS, 1.0))
    level = level_to_tune(probe, objective, given.concurrency)
    callers = level.load.concurrency
    print(f"Tuning {len(found)} settings for the {objective}, {callers} callers", flush=True)
    search = Search(
        objective,
        lambda settings, seconds: tuned.measure(settings, callers, seconds).load,
        tuned.smoke_test,
        deadline,
        window_s(level),
        _say,
    )
    kept = search.run(found)
    if not search.tried:
        raise TooShortError(given.time + search.seconds(found))
    return search, kept


def check(tuned: TunedServer) -> float:
    """The present settings must pass the smoke tests, or none could; the seconds that it takes."""
    start = time.monotonic()
    try:
        tuned.smoke_test({})
    except RefusedError as error:
        sys.exit(f"with the present settings: {error}; see `make test`")
    return time.monotonic() - start


def write(kept: Settings, text: str) -> None:
    """Into pipeline.yml, whose `text` was as it was tuned; ValueError if it is another by now."""
    if not kept:
        print("Nothing that was tried beats the present settings by more than noise.")
        print("pipeline.yml stays as it is.")
        return
    if PIPELINE.read_bytes().decode() != text:
        raise ValueError(f"pipeline.yml has changed meanwhile; write there: {describe(kept)}")
    replace(PIPELINE, with_values(text, changes(kept)))
    print(f"Written to pipeline.yml: {describe(kept)}")
    print("Commit it, then run `make update`.")


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    start, given = time.monotonic(), parsed()
    interruptible()
    try:
        with under_load(*EXPLICIT) as server:
            tune(server, given, start)
    except KeyboardInterrupt:
        sys.exit(130)
    except TooShortError as error:
        enough = math.ceil(max(DEFAULT_S, 2 * given.time, error.needed_s))
        sys.exit(f"Nothing was measured: TIME={given.time:g} is too short; give TIME={enough}")
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
