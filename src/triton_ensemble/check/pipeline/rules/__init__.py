"""The rules on answers that no prompt can lead to, only a file. Their words are in catalog/problems.yml.

`hooks/validate/` refuses the others, before a file is written. A rule on a step takes it, the `graph` and
the answers. The place of what it yields begins at the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import cast

from triton_ensemble.check.pipeline.rules import wiring
from triton_ensemble.check.pipeline.rules.batching import batching, sequence
from triton_ensemble.check.pipeline.rules.calls import calls
from triton_ensemble.check.pipeline.rules.config_text import config, config_of_ensemble
from triton_ensemble.check.pipeline.rules.devices import devices, engine
from triton_ensemble.check.pipeline.rules.rows import rows
from triton_ensemble.check.pipeline.rules.settings import release, settings, use
from triton_ensemble.check.pipeline.rules.tensors import tensors
from triton_ensemble.check.pipeline.rules.warmups import warmup
from triton_ensemble.compile.graph import Graph, Step
from triton_ensemble.compile.rules import Mistake
from triton_ensemble.facts.answers import Answers

Rule = Callable[[Step, Graph, Answers], Iterator[Mistake]]
OF_MODELS: tuple[Rule, ...] = (
    use,
    release,
    engine,
    settings,
    calls,
    config,
    batching,
    sequence,
    warmup,
    devices,
    tensors,
)
OF_PIPELINES = (wiring.interface, wiring.tensors, wiring.decoupled, wiring.fused, rows)


def problems_of_ensemble(graph: Graph, answers: Answers) -> Iterator[Mistake]:
    """Yield the first problem of the tensors of an ensemble, each alone."""
    own = cast(Step, {**graph, "adopted": graph["given"].get("adopted")})
    for problem in _first((tensors,), own, graph, answers):
        yield problem.move_into([], "the ensemble ")


def problems_of_file(graph: Graph, answers: Answers, whole: bool) -> Iterator[Mistake]:
    """Yield the first problem of each step and of the ensemble, then the problems of the ensembles inside.

    `whole`: all steps are there, and nothing else is wrong, so that these have to hang together.
    """
    for problem in islice(config_of_ensemble(graph), 1):
        yield problem.move_into(["ensemble"], "ensemble: ")
    for step in graph["steps"]:
        # One that shares a model has the problems of that one's; of a model that there is not, none is known.
        rules = OF_MODELS if "base" not in step else (use,) if step["base"] else ()
        for problem in _first(rules, step, graph, answers):
            yield problem.move_into_step(step["name"])
    if whole:
        yield from chain.from_iterable(rule(graph) for rule in OF_PIPELINES)
    for inner in graph["inner"]:
        for problem in chain(
            problems_of_ensemble(inner, answers), problems_of_file(inner, answers, whole)
        ):
            yield problem.move_into(["steps", inner["name"]], f"step {inner['name']}, inside: ")


def _first(rules: Iterable[Rule], step: Step, graph: Graph, answers: Answers) -> Iterator[Mistake]:
    return islice(chain.from_iterable(rule(step, graph, answers) for rule in rules), 1)
