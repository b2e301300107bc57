"""The models that a Python step calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from triton_ensemble.compile.graph import Graph, Step
from triton_ensemble.compile.rules import Mistake, mistake, nearest
from triton_ensemble.facts.answers import Answers


def calls(step: Step, graph: Graph, answers: Answers) -> Iterator[Mistake]:
    """Only a Python step calls, only steps, and none that waits for it."""
    by_name = {each["name"]: each for each in graph["steps"]}
    if step["calls"] and step["backend"] != "python":
        yield mistake("calls-backend", "calls")
    for name in step["calls"]:
        if name not in by_name:
            yield mistake("calls-unknown", "calls", name, near=nearest(name, by_name), name=name)
    if cycle := _find_cycle(step, by_name):
        yield mistake("calls-cycle", "calls", cycle=" -> ".join(cycle))


def _find_cycle(step: Step, by_name: Mapping[str, Step]) -> list[str]:
    """Return the shortest way from a step back to its own model, or an empty one if there is none.

    Models that call each other wait for each other without end, once each instance of one does. The
    calls of adopted code were read from its texts and are not certain. A model without a step calls none.
    """
    ways, seen = [[step["name"]]], set()
    while ways:
        way = ways.pop(0)
        last = step if way[1:] == [] else by_name[way[-1]]
        for name in () if last.get("adopted") else last.get("calls", []):
            if name in by_name and name not in seen:
                seen.add(name)
                if by_name[name]["model"] == step["model"]:
                    return [*way, name]
                ways.append([*way, name])
    return []
