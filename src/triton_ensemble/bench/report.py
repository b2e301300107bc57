"""Tables of load levels, of their models, and of what differs from an earlier run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from triton_ensemble.bench.figures import Level
from triton_ensemble.bench.runs import Run

HEAD = f"{'concurrency':>11} {'requests/s':>11} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8} {'errors':>7}"


def row(level: Level) -> str:
    """Return the row of a level below HEAD."""
    load = level.load
    latencies = " ".join(f"{us / 1000:8.2f}" for us in (load.p50_us, load.p95_us, load.p99_us))
    return f"{load.concurrency:11} {load.throughput:11.1f} {latencies} {load.failed:7}"


def model_rows(levels: Sequence[Level]) -> Iterator[str]:
    """Yield the table of what each model did at each level: means of a request, and the share of time that it was busy."""
    width = max((len(model.model) for level in levels for model in level.models), default=5)
    times = f"{'queue ms':>9} {'compute ms':>11} {'batch':>6} {'busy':>5}"
    yield f"{'concurrency':>11}  {'model':{width}} {times}"
    for level in levels:
        for model in level.models:
            times = f"{model.queue_us / 1000:9.2f} {model.compute_us / 1000:11.2f}"
            rest = f"{times} {model.batch:6.1f} {model.busy:5.0%}"
            yield f"{level.load.concurrency:11}  {model.model:{width}} {rest}"


def errors(levels: Sequence[Level]) -> Iterator[str]:
    """Yield a line for each text of an error, with its count."""
    counts = sum((Counter(level.load.errors) for level in levels), Counter[str]())
    return (f"{count} failed: {text}" for text, count in counts.items())


def unanswered(level: Level, seconds: float) -> str:
    """Return why a level in which no request succeeded has no figures."""
    if not level.load.failed:
        return f"No request was answered within {seconds:g} s: give more --seconds."
    return "\n".join(["No request was answered.", *errors([level])])


def comparison(old: Run, new: Run) -> Iterator[str]:
    """Yield the conditions that differ between two runs, and a table of the levels that both have."""
    if differences := ", ".join(old.differences(new)):
        yield f"Not all else was equal: {differences}."
    before = {level.load.concurrency: level.load for level in old.levels}
    loads = (level.load for level in new.levels)
    pairs = [(before[load.concurrency], load) for load in loads if load.concurrency in before]
    if not pairs:
        yield "The runs have no level in common: give --concurrency."
        return
    yield f"{'concurrency':>11} {'requests/s':>24} {'p50 ms':>24} {'p99 ms':>24}"
    for was, now in pairs:
        cells = (
            _change(was.throughput, now.throughput),
            _change(was.p50_us / 1000, now.p50_us / 1000),
            _change(was.p99_us / 1000, now.p99_us / 1000),
        )
        yield " ".join([f"{now.concurrency:11}", *(f"{cell:>24}" for cell in cells)])


def _change(was: float, now: float) -> str:
    ratio = now / was - 1 if was else math.nan
    return f"{was:.2f} -> {now:.2f} {ratio:+4.0%}"
