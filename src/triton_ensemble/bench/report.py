"""Levels of load in words: tables, what limits the throughput, and what differs from an earlier run."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence

from triton_ensemble.bench.figures import Level, ModelTimes, best, total_us
from triton_ensemble.bench.saved import Run

BUSY = 0.85  # a model whose instances work for so much of the time makes requests wait
FULL = 0.95  # a machine whose cores do has none left for more instances
NOTABLE = 0.2  # of a request's time: what is less would not be felt
HEAD = f"{'concurrency':>11} {'requests/s':>11} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8} {'errors':>7}"


def row(level: Level) -> str:
    load = level.load
    latencies = " ".join(f"{us / 1000:8.2f}" for us in (load.p50_us, load.p95_us, load.p99_us))
    return f"{load.concurrency:11} {load.throughput:11.1f} {latencies} {load.failed:7}"


def model_rows(levels: Sequence[Level]) -> Iterator[str]:
    """For each level, the models' means of a request: rows of a batch, share of time at work."""
    width = max((len(model.model) for level in levels for model in level.models), default=5)
    times = f"{'queue ms':>9} {'compute ms':>11} {'batch':>6} {'busy':>5}"
    yield f"{'concurrency':>11}  {'model':{width}} {times}"
    for level in levels:
        for model in level.models:
            times = f"{model.queue_us / 1000:9.2f} {model.compute_us / 1000:11.2f}"
            rest = f"{times} {model.batch:6.1f} {model.busy:5.0%}"
            yield f"{level.load.concurrency:11}  {model.model:{width}} {rest}"


def errors(levels: Sequence[Level]) -> Iterator[str]:
    """The texts of what failed, each once."""
    counts: dict[str, int] = {}
    for level in levels:
        for text, count in level.load.errors.items():
            counts[text] = counts.get(text, 0) + count
    return (f"{count} failed: {text}" for text, count in counts.items())


def unanswered(level: Level, seconds: float) -> str:
    """Of a level in which no request succeeded."""
    if not level.load.failed:
        return f"No request was answered within {seconds:g} s: give more --seconds."
    return "\n".join(["No request was answered.", *errors([level])])


def bottleneck(levels: Sequence[Level], shared: Collection[str] = ()) -> str:
    """What limits the throughput at the best level, and the setting of pipeline.yml to try.

    `shared` are models that several steps share: pipeline.yml has settings of their steps only.
    """
    level = best(levels)
    if any(level.load.failed for level in levels):
        return "Some requests failed: see to that before the figures mean anything."
    if not level.models:
        return "The server says nothing of its models: its statistics are switched off."
    found = next(text for rule in RULES if (text := rule(level)))
    for model in shared:
        found = found.replace(f"of step {model}.", f"at each step of {model}, with `fuse: true`.")
    return found


def _callers(level: Level) -> str | None:
    """Python runs one thread at a time: near one core it can send no more."""
    load = level.load
    if not load.in_python or load.own_cores < BUSY or (level.cores_busy or 0) > FULL:
        return None
    return (
        f"The load itself is the limit: it needs {load.own_cores:.1f} cores, and one is all "
        "that a Python program can use. Install perf_analyzer, which `make bench` then uses."
    )


def _machine(level: Level) -> str | None:
    if level.cores_busy is None or level.cores_busy < FULL:
        return None
    model = max(level.models, key=_work)
    share = _work(model) / sum(map(_work, level.models))
    return (
        f"The machine is the limit: all its cores are at work, {level.load.own_cores:.1f} of "
        f"them for the load itself, the others for Triton and whatever else runs; {model.model} "
        f"does {share:.0%} of what the models do. {_less_work(model)}"
    )


def _less_work(model: ModelTimes) -> str:
    if model.batch < 1.5:
        return (
            f"More instances won't help: make {model.model} faster, or try `batching: false` of it."
        )
    return f"More instances won't help: make {model.model} faster, or give it another machine."


def _model(level: Level) -> str | None:
    model = max(level.models, key=lambda model: model.busy)
    if model.busy < BUSY:
        return None
    count = f"{model.instances} instance" + "s" * (model.instances > 1)
    return (
        f"{model.model} is the bottleneck: its {count} worked for {model.busy:.0%} of the time, and "
        f"a request waited {model.queue_us / 1000:.2f} ms for it. Try `instances: "
        f"{model.instances * 2}` of step {model.model}."
    )


def _batches(level: Level) -> str | None:
    waited = sum(model.queue_us for model in level.way)
    if not level.way or waited < level.server_us / 3:
        return None
    model = max(level.way, key=lambda model: model.queue_us)
    if model.batch > 1.5:
        return None
    return (
        f"A request spent {waited / level.server_us:.0%} of its time waiting for others to share a "
        f"batch, and few came: try a smaller `max_queue_delay_us`, or `batching: false` of step "
        f"{model.model}."
    )


def _hops(level: Level) -> str | None:
    rest_us = level.server_us - total_us(level.way)
    if rest_us <= level.server_us * NOTABLE:
        return None
    rest = f"{rest_us / 1000:.2f} ms is the way between them"
    return f"No model is busy all the time: {_shares(level)}, and {rest}. Try fewer steps."


def _slowest(level: Level) -> str:
    model = max(level.way or level.models, key=lambda model: model.compute_us)
    return (
        f"No model is busy all the time: {_shares(level)}. Only a faster {model.model} would answer "
        f"much sooner; for more throughput, try more callers, or `instances: {model.instances * 2}` "
        f"of step {model.model}."
    )


def _shares(level: Level) -> str:
    """Of models side by side, those that take longest."""
    worked, waited = sum(m.compute_us for m in level.way), sum(m.queue_us for m in level.way)
    return (
        f"of a request's {level.server_us / 1000:.2f} ms the models worked {worked / 1000:.2f} ms "
        f"one after the other, it waited {waited / 1000:.2f} ms for them"
    )


def _work(model: ModelTimes) -> float:
    return model.busy * model.instances


RULES: list[Callable[[Level], str | None]] = [
    _callers,
    _machine,
    _model,
    _batches,
    _hops,
    _slowest,
]


def comparison(old: Run, new: Run) -> Iterator[str]:
    """What differs in how the runs were made, and in the levels that both have."""
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
