"""How the steps of a pipeline hang together.

A rule takes the `graph`, and the place of what it yields begins there.
"""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.compile.graph import Graph
from triton_ensemble.compile.rules import Mistake, mistake


def interface(graph: Graph) -> Iterator[Mistake]:
    """Steps read each input of the ensemble, and no step writes it."""
    for name in (each["name"] for each in graph["inputs"]):
        if name in graph["writers"]:
            yield mistake("input-written", "inputs", name, name=name, writer=graph["writers"][name])
        if name not in graph["readers"]:
            yield mistake("input-unread", "inputs", name, name=name)


def tensors(graph: Graph) -> Iterator[Mistake]:
    """A step reads or writes each tensor."""
    for name in graph["tensors"]:
        if name not in graph["readers"] and name not in graph["writers"]:
            yield mistake("tensor-unused", "tensors", name, name=name)


def decoupled(graph: Graph) -> Iterator[Mistake]:
    """A decoupled step answers as often as it likes, so what comes of it meets nothing else.

    Neither in a step nor among the outputs, which clients read.
    """
    origin: dict[str, str] = {}  # of each tensor, the decoupled step that it comes of
    reads = [(step, step["read"]) for step in graph["steps"]]
    for step, read in (*reads, (None, [each["name"] for each in graph["outputs"]])):
        first: dict[str, str] = {}
        for tensor in read:
            first.setdefault(origin.get(tensor, ""), tensor)
        source = next(filter(None, first), "")
        for other in (each for each in first if each != source):
            words = {"source": source, "one": first[source], "other": first[other]}
            if step is None:
                yield mistake("decoupled-outputs", "outputs", first[other], **words)
            else:
                found = mistake("decoupled-step", "inputs", first[other], **words)
                yield found.move_into_step(step["name"])
        if step:
            own = step["name"] if step.get("decoupled") else source
            origin |= dict.fromkeys(step["written"], own)


def fused(graph: Graph) -> Iterator[Mistake]:
    """A step that asks to be fused is."""
    for name, why in graph["unfused"]:
        yield mistake("unfused", "fuse", why=why).move_into_step(name)
