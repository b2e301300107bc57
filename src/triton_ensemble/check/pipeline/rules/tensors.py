"""The tensors of a model, or of the ensemble, each alone."""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.check.dims import segments
from triton_ensemble.compile.graph import Graph, Side, Step
from triton_ensemble.compile.rules import Mistake, mistake
from triton_ensemble.facts import catalog
from triton_ensemble.facts.answers import Answers

OTHER: dict[Side, Side] = {"inputs": "outputs", "outputs": "inputs"}


def tensors(owner: Step, graph: Graph, answers: Answers) -> Iterator[Mistake]:
    """A tensor has the fields of its side. A reshape keeps the values, and labels lie beside the config."""
    fields = catalog.table("bindings")
    for at, each in ((side, each) for side in OTHER for each in owner[side]):
        name, dims, reshape = each["name"], each["dims"], each["reshape"]
        for field in fields[OTHER[at]]:
            if field not in fields[at] and each.get(field):
                words = {"field": field, "name": name, "side": at, "only": OTHER[at]}
                yield mistake("wrong-side", at, name, field, **words)
        if at == "outputs" and each["optional"] and not _is_optional(each["tensor"], graph):
            yield mistake("optional-output", at, name, "optional", name=name)
        if reshape is not None and segments(dims) != segments(reshape):
            words = {"name": name, "dims": dims, "reshape": reshape}
            place = (at, name, "reshape")
            yield mistake("reshape-segments" if -1 in dims else "reshape-values", *place, **words)
        if reshape == [] and not owner["max_batch_size"]:
            yield mistake("reshape-scalar", at, name, "reshape", name=name)
        if "/" in (each.get("labels") or "") and not owner["adopted"]:
            yield mistake("labels-folder", at, name, "labels", labels=each["labels"])


def _is_optional(tensor: str | None, graph: Graph) -> bool:
    return bool(graph["tensors"].get(tensor or "", {}).get("optional"))
