"""How many rows a tensor has, where a model with a batch dimension meets one without it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, permutations
from typing import NamedTuple

from triton_ensemble.check.dims import is_same_dims
from triton_ensemble.compile.graph import (
    Binding,
    Graph,
    Side,
    Step,
)
from triton_ensemble.compile.rules import Mistake, mistake
from triton_ensemble.facts.answers import Answers

USES: tuple[tuple[str, Side], ...] = (
    ("has", "inputs"),
    ("has", "outputs"),
    ("writes", "outputs"),
    ("reads", "inputs"),
)


class Use(NamedTuple):
    """How the ensemble `has` a tensor, behind its reshape, or how a step `reads` or `writes` it."""

    owner: Step | Graph
    verb: str
    side: Side
    binding: Binding
    dims: list[int]

    @property
    def batches(self) -> bool:
        """Whether the dims describe a single row."""
        return bool(self.owner["max_batch_size"])

    @property
    def words(self) -> Answers:
        """Return the owner of the tensor, and the dims that it states."""
        owner = "the ensemble" if self.verb == "has" else f"step {self.owner['name']}"
        return {"who": f"{owner} {self.verb}", "other": str(self)}

    def __str__(self) -> str:
        return f"{self.binding['type']}{self.dims}{' in each row' * self.batches}"


Uses = Mapping[str | None, list[Use]]  # by tensor


def rows(graph: Graph) -> Iterator[Mistake]:
    """The first problem of each step, of a pipeline whose dims are right, with or without a batch dimension."""
    uses: Uses = defaultdict(list)
    for verb, side in USES:
        owners: Iterable[Step | Graph] = [graph] if verb == "has" else graph["steps"]
        for owner in owners:
            for each in owner[side] if owner.get("declare", True) else ():
                reshape = each["reshape"] if verb == "has" else None
                if each["tensor"] is not None:
                    dims = each["dims"] if reshape is None else reshape
                    uses[each["tensor"]].append(Use(owner, verb, side, each, dims))
    found: dict[str, Mistake] = {}
    for step, wrong in chain(_find_lost_rows(graph, uses), _find_changed_rows(graph, uses)):
        found.setdefault(step, wrong)
    yield from (wrong.move_into_step(step) for step, wrong in found.items())


def _find_lost_rows(graph: Graph, uses: Uses) -> Iterator[tuple[str, Mistake]]:
    """Triton takes the batch dimension off for a model that has none, and of several rows answers none."""
    pairs = chain.from_iterable(permutations(each, 2) for each in uses.values())
    for one, two in sorted(pairs, key=lambda pair: pair[0].side):
        step, at = one.owner, (one.side, one.binding["name"])
        words = {"tensor": one.binding["tensor"], **two.words}
        flat, batched = (two, one) if one.batches else (one, two)
        if step is graph or one.batches == two.batches:
            continue
        if not is_same_dims(flat.dims, [-1, *batched.dims]):
            if two.verb != "reads" and not step.get("adopted") and graph["max_batch_size"] > 1:
                words |= {"verb": one.verb, "own": str(one)}
                yield step["name"], mistake("single-rows", *at, **words)
        elif flat is two and "sequence" in step and flat.dims[0] > 1:
            yield step["name"], mistake("sequence-rows", *at, **words)
        elif flat is two and "sequence" not in step and flat.dims[0] > step["max_batch_size"]:
            words |= {"count": flat.dims[0], "most": step["max_batch_size"]}
            yield step["name"], mistake("more-rows", *at, **words)


def _find_changed_rows(graph: Graph, uses: Uses) -> Iterator[tuple[str, Mistake]]:
    """A Python step that batches writes as many rows as it reads, also where the dims of others have the rows."""
    written: dict[str | None, int] = {}
    for step in graph["steps"]:
        if not step["max_batch_size"] or step["backend"] != "python" or step["adopted"]:
            continue
        rows = -1
        for each in step["inputs"]:
            counts = [_count(use, each["dims"]) for use in uses[each["tensor"]]]
            rows = max(rows, written.get(each["tensor"], -1), *counts)
        for each in step["outputs"] if rows != -1 else ():
            written[each["tensor"]] = rows
            for use in uses[each["tensor"]]:
                if _count(use, each["dims"]) not in (-1, rows):
                    words = {"tensor": each["tensor"], "rows": rows, **use.words}
                    yield step["name"], mistake("rows-kept", "outputs", each["name"], **words)


def _count(use: Use, dims: list[int]) -> int:
    """Return how many rows of these dims a use without a batch dimension has, -1 if any or unknown."""
    if not use.batches and is_same_dims(use.dims, [-1, *dims]):
        return use.dims[0]
    return 1 if not use.batches and is_same_dims(use.dims, dims) else -1
