"""How requests become batches or sequences."""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.compile.graph import Graph, Step
from triton_ensemble.compile.rules import Mistake, mistake
from triton_ensemble.facts.answers import Answers


def batching(step: Step, graph: Graph, answers: Answers) -> Iterator[Mistake]:
    """A model has rows and one scheduler, which a config would drop otherwise."""
    given, sequence = step.get("batching"), step.get("sequence", {})
    settings = given if isinstance(given, dict) else {}
    if given and not step["max_batch_size"] and "default_queue_policy" not in settings:
        yield mistake("batching-no-rows", "batching")
    if given and "sequence" in step:
        yield mistake("batching-sequence", "batching")
    if "direct" in sequence and "oldest" in sequence:
        yield mistake("direct-oldest", "sequence")


def sequence(step: Step, graph: Graph, answers: Answers) -> Iterator[Mistake]:
    """Inputs that Triton adds to the requests of a sequence are not the model's own."""
    given, inputs = step.get("sequence", {}), {each["name"] for each in step["inputs"]}
    for place, key in (("control_input", "name"), ("state", "input_name")):
        for each in given.get(place, []):
            if each[key] in inputs:
                yield mistake("sequence-input", "sequence", place, each[key], name=each[key])
