"""The routes of `openai`: the gateway serves them, and the pipeline has tensors of their form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from triton_ensemble.compile.graph import (
    SIDES,
    Binding,
    Graph,
    Side,
)
from triton_ensemble.compile.rules import Mistake, mistake, nearest
from triton_ensemble.facts.answers import Answers


class Role(NamedTuple):
    """The kind of tensor that a field of a route names: an input or output of certain types, a single value or a vector."""

    side: Side
    types: tuple[str, ...]
    is_vector: bool = False

    def fits(self, tensor: Binding) -> bool:
        """Return whether a tensor of the graph is of this kind."""
        dims = tensor["dims"]
        return tensor["type"] in self.types and len(dims) == 1 and (self.is_vector or dims == [1])

    def __str__(self) -> str:
        return (
            f"{' or '.join(self.types)} with dims {'[-1] or [SIZE]' if self.is_vector else '[1]'}"
        )


TEXT = Role("inputs", ("STRING",))
VECTOR = Role("outputs", ("FP32", "FP16", "FP64"), is_vector=True)
COUNT = ("INT32", "INT64", "UINT32")
TOKENS = Role("outputs", COUNT)
ROLES = {
    "embeddings": {"input": TEXT, "output": VECTOR, "dimensions": Role("inputs", COUNT), "tokens": TOKENS},
    "rerank": {"query": TEXT, "document": TEXT, "score": Role("outputs", VECTOR.types), "tokens": TOKENS},
    "classify": {"input": TEXT, "probabilities": VECTOR, "label": Role("outputs", ("STRING",)), "tokens": TOKENS},
}  # fmt: skip


def openai(graph: Graph, answers: Answers) -> Iterator[Mistake]:
    """Each tensor that a route names exists in the pipeline, with a type and dims that the route can fill or return."""
    routes = answers.get("openai") or {}
    if routes and (why := _explain_why_not(graph, answers)):
        yield mistake("openai-without", "openai", why=why[0], write=why[1])
        return
    sides = {side: {each["name"]: each for each in graph[side]} for side in SIDES}
    for route, tensors in routes.items():
        for field, role in ROLES[route].items():
            have, name = sides[role.side], str(tensors.get(field, ""))
            where = ("openai", route, field)
            words = {"route": route, "field": field, "name": name}
            if name and name not in have:
                names = ", ".join(have)
                near = nearest(name, have)
                yield mistake(
                    "openai-unknown", *where, near=near, side=role.side, names=names, **words
                )
            elif name and not role.fits(have[name]):
                own = f"{have[name]['type']} with dims {have[name]['dims']}"
                yield mistake("openai-tensor", *where, own=own, want=str(role), **words)
            elif name and role.side == "outputs" and have[name]["optional"]:
                yield mistake("openai-optional", *where, **words)
        sent = {str(name) for name in tensors.values()}
        for name, tensor in sides["inputs"].items():
            if name not in sent and not tensor["optional"]:
                yield mistake("openai-needed", "openai", route, route=route, name=name)


def _explain_why_not(graph: Graph, answers: Answers) -> tuple[str, str] | None:
    """Return why no route can be served, and what to write instead."""
    if "gateway" not in answers["extras"]:
        return "the project has no gateway", "add `gateway` to `extras`, or drop `openai`"
    if graph["decoupled"] or graph["sequential"]:
        return (
            "a decoupled pipeline, or one with sequences, cannot have these routes",
            "drop `openai`",
        )
    if not graph["max_batch_size"]:
        return "a text is a row, and the pipeline has none", "write `max_batch_size: 1` or more"
    return None
