"""How the steps of a pipeline hang together. A rule takes the `graph`; the place of what it yields begins there."""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.config import dims_match
from triton_ensemble.pipeline.rules import Answers, Problem, problem


def interface(graph: Answers) -> Iterator[Problem]:
    """What the ensemble takes, steps read, and no step writes."""
    for name in (each["name"] for each in graph["inputs"]):
        if name in graph["writers"]:
            yield problem("input-written", "inputs", name, name=name, writer=graph["writers"][name])
        if name not in graph["readers"]:
            yield problem("input-unread", "inputs", name, name=name)


def tensors(graph: Answers) -> Iterator[Problem]:
    """Each tensor is one that a step has."""
    for name in graph["tensors"]:
        if name not in graph["readers"] and name not in graph["writers"]:
            yield problem("tensor-unused", "tensors", name, name=name)


def decoupled(graph: Answers) -> Iterator[Problem]:
    """A decoupled step answers as often as it likes, so what comes of it meets nothing else.

    Neither in a step nor among the outputs, which clients read.
    """
    origin: dict[str, str] = {}  # of each tensor, the decoupled step that it comes of
    clients = {"read": [each["tensor"] for each in graph["outputs"]], "written": []}
    for step in (*graph["steps"], clients):
        first: dict[str, str] = {}
        for tensor in step["read"]:
            first.setdefault(origin.get(tensor, ""), tensor)
        source = next(filter(None, first), "")
        for other in (each for each in first if each != source):
            words = {"source": source, "one": first[source], "other": first[other]}
            if step is clients:
                yield problem("decoupled-outputs", "outputs", first[other], **words)
            else:
                found = problem("decoupled-step", "inputs", first[other], **words)
                yield found.of_step(step["name"])
        origin |= dict.fromkeys(step["written"], step["name"] if step.get("decoupled") else source)


def fused(graph: Answers) -> Iterator[Problem]:
    """A step that asks to be fused is."""
    for name, why in graph["unfused"]:
        yield problem("unfused", "fuse", why=why).of_step(name)


def rows_kept(graph: Answers) -> Iterator[Problem]:
    """A Python step that batches writes as many rows as it reads, also where the dims of others have the rows."""
    others: dict[str, list[tuple[str, list[int]]]] = {}  # without a batch dimension, by tensor
    for owner in (graph, *graph["steps"]):
        who = "the ensemble" if owner is graph else f"step {owner['name']}"
        for each in (*owner["inputs"], *owner["outputs"]):
            if not owner["max_batch_size"] and each["dims"]:
                dims = each["reshape"] if owner is graph and each["reshape"] else each["dims"]
                others.setdefault(each["tensor"], []).append((who, dims))
    written: dict[str, int] = {}
    for step in graph["steps"]:
        if not step["max_batch_size"] or step["backend"] != "python" or step["adopted"]:
            continue
        rows = -1
        for each in step["inputs"]:
            counts = [_rows(dims, each["dims"]) for _, dims in others.get(each["tensor"], [])]
            rows = max(rows, written.get(each["tensor"], -1), *counts)
        for each in step["outputs"] if rows != -1 else ():
            written[each["tensor"]] = rows
            for who, dims in others.get(each["tensor"], []):
                if _rows(dims, each["dims"]) not in (-1, rows):
                    words = {"tensor": each["tensor"], "who": who, "dims": dims, "rows": rows}
                    found = problem("rows-kept", "outputs", each["name"], **words)
                    yield found.of_step(step["name"])
                    break


def _rows(dims: list[int], batched: list[int]) -> int:
    """Return how many rows of these dims some without a batch dimension have; -1: any, or it is unknown."""
    if dims_match(dims, [-1, *batched]):
        return dims[0]
    return 1 if dims_match(dims, batched) else -1
