"""The rules on answers that no prompt can lead to, only a file. Their words are in catalog/problems.yml.

`hooks/validate/` refuses the others, before a file is written. A rule takes a step of `graph`, the `graph` and
the answers; the place of what it yields begins at the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice

from triton_ensemble.check.pipeline.rules.batching import batching, sequence
from triton_ensemble.check.pipeline.rules.calls import calls
from triton_ensemble.check.pipeline.rules.config_text import config, config_of_ensemble
from triton_ensemble.check.pipeline.rules.devices import devices, engine
from triton_ensemble.check.pipeline.rules.settings import settings
from triton_ensemble.check.pipeline.rules.warmups import warmup
from triton_ensemble.pipeline.rules import Answers, Problem

OF_STEPS: tuple[Callable[[Answers, Answers, Answers], Iterator[Problem]], ...] = (
    engine,
    settings,
    calls,
    config,
    batching,
    sequence,
    warmup,
    devices,
)


def problems_of_file(graph: Answers, answers: Answers) -> Iterator[Problem]:
    """Yield the first problem of each step and of the ensemble, and those of the ensembles inside."""
    for problem in islice(config_of_ensemble(graph), 1):
        yield _within(problem, ["ensemble"], "ensemble: ")
    for step in graph["steps"]:
        if "base" not in step:  # else it has the problems of that one's model
            found = chain.from_iterable(rule(step, graph, answers) for rule in OF_STEPS)
            for problem in islice(found, 1):
                yield _within(problem, ["steps", step["name"]], f"step {step['name']}: ")
    for inner in graph["inner"]:
        for problem in problems_of_file(inner, answers):
            yield _within(problem, ["steps", inner["name"]], f"step {inner['name']}, inside: ")


def _within(problem: Problem, where: list[str | int], place: str) -> Problem:
    return problem._replace(where=where + problem.where, place=[place, *problem.place])
