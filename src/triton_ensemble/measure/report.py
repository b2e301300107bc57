"""Tables of load levels, of their models, and of what differs from an earlier run."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence

from triton_ensemble.measure.figures import Level, Load
from triton_ensemble.measure.runs import Run

LATENCIES = ("p50 ms", "p95 ms", "p99 ms")
STREAM = ("responses/s", "first p50 ms", "first p99 ms", "between p50 ms", "between p99 ms")


def head(*, decoupled: bool) -> str:
    """Return the head of the table of levels, or for a decoupled pipeline of its responses."""
    columns = (f"{name:>8}" for name in (STREAM if decoupled else LATENCIES))
    return " ".join([f"{'concurrency':>11} {'requests/s':>11}", *columns, " errors"])


def row(level: Level) -> str:
    """Return the row of a level below the head."""
    load, stream = level.load, level.load.stream
    if stream:
        per_s, *times_us = dataclasses.astuple(stream)
        cells = [f"{per_s:11.1f}"]
    else:
        times_us, cells = [load.p50_us, load.p95_us, load.p99_us], []
    cells += [
        f"{us / 1000:{max(len(name), 8)}.2f}"
        for us, name in zip(times_us, (STREAM[1:] if stream else LATENCIES), strict=True)
    ]
    return " ".join([f"{load.concurrency:11} {load.throughput:11.1f}", *cells, f"{load.failed:7}"])


def model_rows(levels: Sequence[Level]) -> Iterator[str]:
    """Yield the table of what each model did at each level: means of a request, and the share of time that it was busy."""
    models = [model for level in levels for model in level.models]
    names = [
        name for each in models for name in (each.model, *(f"- {step}" for step in each.steps))
    ]
    width = max(map(len, names), default=5)
    times = (
        f"{'queue ms':>9} {'compute ms':>11} {'batch':>6} {'busy':>5} {'p50 ms':>8} {'p99 ms':>8}"
    )
    yield f"{'concurrency':>11}  {'model':{width}} {times}"
    for level in levels:
        for model in level.models:
            times = f"{model.queue_us / 1000:9.2f} {model.compute_us / 1000:11.2f}"
            quantiles = "".join(f" {us / 1000:8.2f}" for us in model.quantiles_us)
            rest = f"{times} {model.batch:6.1f} {model.busy:5.0%}{quantiles}"
            yield f"{level.load.concurrency:11}  {model.model:{width}} {rest}"
            for step, share in model.steps.items():
                compute, busy = (
                    f"{model.compute_us * share / 1000:11.2f}",
                    f"{model.busy * share:5.0%}",
                )
                yield f"{level.load.concurrency:11}  {f'- {step}':{width}} {'':9} {compute} {'':6} {busy}"


def errors(levels: Sequence[Level]) -> Iterator[str]:
    """Yield a line for each text of an error, with its count."""
    counts = sum((Counter(level.load.errors) for level in levels), Counter[str]())
    return (f"{count} failed: {text}" for text, count in counts.items())


def explain_unanswered(level: Level, seconds: float) -> str:
    """Return why a level without a successful request lacks figures."""
    if not level.load.failed:
        return f"No request was answered within {seconds:g} s: give more --seconds."
    return "\n".join(["No request was answered.", *errors([level])])


def comparison(old: Run, new: Run) -> Iterator[str]:
    """Yield the conditions that differ between two runs, and a table of the levels that both have."""
    if differences := ", ".join(old.differences(new)):
        yield f"The conditions differ: {differences}."
    before = {level.load.concurrency: level.load for level in old.levels}
    loads = (level.load for level in new.levels)
    pairs = [(before[load.concurrency], load) for load in loads if load.concurrency in before]
    pairs = [(was, now) for was, now in pairs if bool(was.stream) == bool(now.stream)]
    if not pairs:
        yield "The runs have no level in common: give --concurrency."
        return
    yield " ".join(
        [f"{'concurrency':>11}", *(f"{name:>24}" for name in _list_figures(pairs[0][1]))]
    )
    for was, now in pairs:
        cells = map(_change, _list_figures(was).values(), _list_figures(now).values())
        yield " ".join([f"{now.concurrency:11}", *(f"{cell:>24}" for cell in cells)])


def _list_figures(load: Load) -> dict[str, float]:
    """Return the figures that runs are compared by."""
    p50, p99, stream = load.p50_us / 1000, load.p99_us / 1000, load.stream
    if not stream:
        return {"requests/s": load.throughput, "p50 ms": p50, "p99 ms": p99}
    first, between = stream.first_p50_us / 1000, stream.between_p50_us / 1000
    return {"responses/s": stream.per_s, "first p50 ms": first, "between p50 ms": between}


def _change(was: float, now: float) -> str:
    ratio = now / was - 1 if was else math.nan
    return f"{was:.2f} -> {now:.2f} {ratio:+4.0%}"
