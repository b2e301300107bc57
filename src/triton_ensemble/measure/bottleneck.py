"""Describe what limits the throughput of a load level, in a sentence that says what to try."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from triton_ensemble.measure.figures import (
    Level,
    ModelTimes,
    best,
    total_us,
)

BUSY = 0.85  # a model whose instances work for so much of the time makes requests wait
FULL = 0.95  # a machine whose cores do has none left for more instances
RARE = 10  # times the p50: a p99 that most requests do not explain
NOTABLE = 0.2  # of a request's time: less would not be noticed


def bottleneck(levels: Sequence[Level], fused: Collection[str] = ()) -> str:
    """Return what limits the throughput at the best level, and the setting of pipeline.yml to try.

    `fused` are models that serve several steps: pipeline.yml has settings of the steps only.
    """
    level = best(levels)
    if any(level.load.failed for level in levels):
        return "Some requests failed: fix that first, or the figures mean little."
    if not level.models:
        return "The server does not report on its models: its statistics are switched off."
    advice = next(text for rule in RULES if (text := rule(level)))
    for model in fused:
        advice = advice.replace(f"of step {model}.", f"at each step of {model}, with `fuse: true`.")
    return advice + _describe_slowest_step(level, advice)


def describe_rare(level: Level) -> Iterator[str]:
    """Yield a sentence on a model that alone is slow now and then. A busy machine makes all models so."""
    measured = [model for model in level.models if model.quantiles_us]
    slowest = sorted(measured, key=lambda model: model.quantiles_us[1], reverse=True)
    for model, *others in [slowest] * bool(slowest):
        p50, p99 = model.quantiles_us
        if p99 > max(RARE * p50, *(2 * each.quantiles_us[1] for each in others[:1]), RARE):
            yield (
                f"{model.model} is slow now and then: its p99 of {p99 / 1000:.1f} ms is {p99 / max(p50, 1):.0f} times "
                "its p50. More instances won't help: look for work that only some calls do."
            )


def _describe_slowest_step(level: Level, advice: str) -> str:
    """Return a sentence on the slowest step of the model that an advice is about.

    The text is empty if the model has a single step.
    """
    for model in level.models:
        if model.steps and re.search(rf"(?<![\w.-]){re.escape(model.model)}(?![\w-])", advice):
            step = max(model.steps, key=model.steps.__getitem__)
            return f" Of the time of {model.model}, its step {step} takes {model.steps[step]:.0%}."
    return ""


def _callers(level: Level) -> str | None:
    if level.load.own_cores < BUSY or (level.cores_busy or 0) > FULL:
        return None
    return (
        f"The load itself is the limit: it needs {level.load.own_cores:.1f} cores, and one is all "
        "that a Python program can use. Triton may serve more: start several `make bench` at once "
        "with the same TRITON_URL, and add up what they measure."
    )


def _machine(level: Level) -> str | None:
    if level.cores_busy is None or level.cores_busy < FULL:
        return None
    works = {model: model.own_work for model in level.models}
    model = max(works, key=works.__getitem__)
    share = works[model] / sum(works.values())
    return (
        f"The machine is the limit: all its cores are at work, {level.load.own_cores:.1f} of "
        f"them for the load itself, the others for Triton and whatever else runs; {model.model} "
        f"does {share:.0%} of what the models do. {_less_work(model)}"
    )


def _less_work(model: ModelTimes) -> str:
    other = "try `batching: false` of it" if model.batch < 1.5 else "give it another machine"
    return f"More instances won't help: make {model.model} faster, or {other}."


def _find_busy_model(level: Level) -> str | None:
    model = max(level.models, key=lambda model: model.busy)
    if model.busy < BUSY:
        return None
    count = f"{model.instances} instance" + "s" * (model.instances > 1)
    return (
        f"{model.model} is the bottleneck: its {count} worked for {model.busy:.0%} of the time, and "
        f"a request waited {model.queue_us / 1000:.2f} ms for it. Try `instances: "
        f"{model.instances * 2}` of step {model.model}.{_waits(model)}"
    )


def _waits(model: ModelTimes) -> str:
    """Return what to do as well about a model that calls others: without it, they would get no more requests at once."""
    share = 1 - model.own_us / model.compute_us
    if share < NOTABLE:
        return ""
    waited = f" For {share:.0%} of that it waited for models that it calls"
    return f"{waited}: raise `instances` of those that are busy, too."


def _streams(level: Level) -> str | None:
    """Say what is known of models that answer a request several times: others have a request for each response."""
    if not level.load.stream:
        return None
    model = max(level.models, key=lambda model: model.own_work)
    return f"No model is busy all the time; {model.model} works most. Try more callers for more responses a second."


def _queue_delay(level: Level) -> str | None:
    queue_us = sum(model.queue_us for model in level.critical_path)
    if not level.critical_path or queue_us < level.server_us / 3:
        return None
    model = max(level.critical_path, key=lambda model: model.queue_us)
    if model.batch > 1.5:
        return None
    return (
        f"A request spent {queue_us / level.server_us:.0%} of its time waiting for others to share a "
        f"batch, and few came: try a smaller `max_queue_delay_us`, or `batching: false` of step "
        f"{model.model}."
    )


def _hops(level: Level) -> str | None:
    rest_us = level.server_us - total_us(level.critical_path)
    if rest_us <= level.server_us * NOTABLE:
        return None
    rest = f"{rest_us / 1000:.2f} ms is overhead between them"
    return f"No model is busy all the time: {_shares(level)}, and {rest}. Try fewer steps."


def _find_slowest_model(level: Level) -> str:
    calls = any(model.called_us for model in level.models)
    models = level.models if calls else level.critical_path or level.models
    model = max(models, key=lambda model: model.own_us)
    return (
        f"No model is busy all the time: {_shares(level)}. Only a faster {model.model} would answer "
        f"much sooner; for more throughput, try more callers, or `instances: {model.instances * 2}` "
        f"of step {model.model}."
    )


def _shares(level: Level) -> str:
    """Return how a request's time divides on the critical path."""
    compute_us = sum(model.compute_us for model in level.critical_path)
    queue_us = sum(model.queue_us for model in level.critical_path)
    return (
        f"of a request's {level.server_us / 1000:.2f} ms the models worked {compute_us / 1000:.2f} ms "
        f"one after the other, it waited {queue_us / 1000:.2f} ms for them"
    )


# Asked in this order; the last always has an answer.
RULES: tuple[Callable[[Level], str | None], ...] = (
    _callers,
    _machine,
    _find_busy_model,
    _streams,
    _queue_delay,
    _hops,
    _find_slowest_model,
)
