"""Requests that Triton asks a model itself, when it loads: for its inputs, and no other."""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.check.dims import is_same_dims
from triton_ensemble.compile.graph import Graph, Step
from triton_ensemble.compile.rules import Mistake, mistake, nearest
from triton_ensemble.facts.answers import Answers


def warmup(step: Step, graph: Graph, answers: Answers) -> Iterator[Mistake]:
    """A warmup has the inputs of the model, with its dims, also where the config leaves them out."""
    names = [each["name"] for each in step["inputs"]]
    for i, each in enumerate(step.get("warmup", [])):
        given = {str(name): value for name, value in each["inputs"].items()}
        place: list[str | int] = ["warmup", i]
        for name in given:
            if name not in names:
                words = {"near": nearest(name, names), "name": name, "names": ", ".join(names)}
                yield mistake("warmup-unknown", *place, "inputs", name, **words)
        for own in step["inputs"]:
            name, said = own["name"], given.get(own["name"], {})
            dims = said.get("dims", []) if isinstance(said, dict) else []
            if name not in given and not own["optional"]:
                yield mistake("warmup-missing", *place, "inputs", name=name)
            if dims and own["dims"] and not is_same_dims(dims, own["dims"]):
                at, words = [*place, "inputs", name, "dims"], {"name": name}
                yield mistake("warmup-dims", *at, given=dims, dims=own["dims"], **words)
