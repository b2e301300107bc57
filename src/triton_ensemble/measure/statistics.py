"""The work of each model between two readings of Triton's statistics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.facts.config.message import ModelConfig
from triton_ensemble.measure.figures import ModelTimes, total_us
from triton_ensemble.measure.server import TIMEOUT_S, ServerUnderLoad

Counters = dict[str, Counter[str]]
STEP_SECONDS = re.compile(r"^step_seconds_total\{(.*)\} (\S+)$", re.MULTILINE)
QUANTILE = re.compile(r"^nv_inference_compute_infer_summary_us\{(.*)\} (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')
COMPUTE = ("compute_input", "compute_infer", "compute_output")


def counters(server: ServerUnderLoad) -> Counters:
    """Return the counters of each model of the project since it was loaded, of all versions together.

    They are empty if the server keeps its statistics to itself.
    """
    models: Counters = {}
    try:
        entries = server.client.get_inference_statistics(client_timeout=TIMEOUT_S).model_stats
    except InferenceServerException:
        return models
    for entry in entries:
        if entry.name in server.configs:
            models.setdefault(entry.name, Counter()).update(_counter(entry))
    return models


def _counter(entry: Any) -> Counter[str]:
    stats = entry.inference_stats
    return Counter(
        requests=stats.success.count,
        rows=entry.inference_count,
        executions=entry.execution_count,
        cache_hits=stats.cache_hit.count,
        request_ns=stats.success.ns,
        queue_ns=stats.queue.ns,
        compute_ns=sum(getattr(stats, part).ns for part in COMPUTE),
        busy_ns=sum(getattr(batch, part).ns for batch in entry.batch_stats for part in COMPUTE),
    )


def subtract_counters(before: Counters, after: Counters) -> Counters:
    """Return how far each counter went up."""
    done = {name: Counter(counter) for name, counter in after.items()}
    for name, counter in done.items():
        counter.subtract(before.get(name, Counter()))
    return done


def step_seconds(metrics: str) -> Counter[tuple[str, str]]:
    """Return the seconds by model and step that the text of Triton's metrics has, of all versions together."""
    seconds: Counter[tuple[str, str]] = Counter()
    for labels, value in STEP_SECONDS.findall(metrics):
        of = dict(LABEL.findall(labels))
        seconds.update({(of["model"], of["step"]): float(value)})
    return seconds


def read_quantiles(metrics: str) -> dict[str, list[float]]:
    """Return the p50 and p99 of executions in microseconds by model, of its slowest version."""
    found: dict[str, dict[str, float]] = {}
    for labels, value in QUANTILE.findall(metrics):
        of = dict(LABEL.findall(labels))
        known = found.setdefault(of["model"], {})
        known[of["quantile"]] = max(known.get(of["quantile"], 0.0), float(value))
    return {model: [q["0.5"], q["0.99"]] for model, q in found.items() if {"0.5", "0.99"} <= {*q}}


def step_shares(
    before: Counter[tuple[str, str]], after: Counter[tuple[str, str]]
) -> dict[str, dict[str, float]]:
    """Return the share of each step in the time of its model, of models that several steps share."""
    models: dict[str, dict[str, float]] = {}
    for (model, step), seconds in after.items():
        models.setdefault(model, {})[step] = seconds - before[model, step]
    return {
        model: {step: seconds / total for step, seconds in steps.items()}
        for model, steps in models.items()
        if len(steps) > 1 and (total := sum(steps.values())) > 0
    }


def request_us(done: Counters, model: str) -> float:
    """Return the server's mean time for a request to a model, or 0 without requests."""
    counter = done.get(model, Counter())
    return counter["request_ns"] / max(counter["requests"], 1) / 1000


def model_times(
    done: Counters,
    seconds: float,
    configs: Mapping[str, ModelConfig],
    ensemble: str,
    calls: Mapping[str, Sequence[str]],
) -> list[ModelTimes]:
    """Return the times of the models that worked for `seconds`, in the order of execution, without ensembles."""
    times = {
        name: _times(name, done[name], seconds, instances(configs[name]))
        for name in execution_order(configs, ensemble, calls)
        if name in done and done[name]["requests"] > 0 and configs[name].platform != "ensemble"
    }
    called = {name: [times[n] for n in calls.get(name, []) if n in times] for name in times}
    return [
        replace(caller, called_us=_sum_called_us(caller, done[name]["executions"], called[name]))
        for name, caller in times.items()
    ]


def _sum_called_us(caller: ModelTimes, executions: int, called: Sequence[ModelTimes]) -> float:
    """Return how much of a request's time its model waited for models that it calls: at most all of it.

    All requests of a batch wait for its calls, so the waits are shared among executions.
    """
    waited_us = sum(model.requests * total_us([model]) for model in called)
    return min(waited_us / max(executions, 1), caller.compute_us)


def execution_order(
    configs: Mapping[str, ModelConfig], ensemble: str, calls: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the models in the order of the ensemble's steps, breadth first, each before the models that it calls."""
    order: list[str] = []
    waiting = [ensemble]
    while waiting:
        name = waiting.pop(0)
        if name in configs and name not in order:
            order.append(name)
            waiting[:0] = calls.get(name, [])
            waiting += [step.model_name for step in configs[name].ensemble_scheduling.step]
    return [*order, *sorted(set(configs) - set(order))]


def _times(name: str, done: Counter[str], seconds: float, count: int) -> ModelTimes:
    return ModelTimes(
        name,
        requests=done["requests"],
        batch=done["rows"] / max(done["executions"], 1),
        queue_us=done["queue_ns"] / done["requests"] / 1000,
        compute_us=done["compute_ns"] / done["requests"] / 1000,
        instances=count,
        busy=done["busy_ns"] / 1e9 / seconds / count,
        cache_hits=done["cache_hits"],
    )


def instances(config: ModelConfig) -> int:
    """Return how many instances a model has, on all GPUs together."""
    counts = (group.count * max(len(group.gpus), 1) for group in config.instance_group)
    return max(int(sum(counts)), 1)
