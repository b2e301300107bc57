"""The steps of an ensemble: in their order, each with what its model declares, and what Triton does not answer about their wiring."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from triton_ensemble.adopt.fields import Fields, spec
from triton_ensemble.adopt.repository import Config, Models
from triton_ensemble.adopt.scheduling import steps


@dataclass(frozen=True)
class Wired:
    """One step of an ensemble, with what its model declares."""

    step: Any
    model: Config

    def uses(self) -> Iterator[tuple[str, str, str | None, Fields]]:
        """Side, the model's own name, the ensemble's tensor or none, and the spec as far as it is declared."""
        for side, declared, mapped in (
            ("inputs", self.model.input, self.step.input_map),
            ("outputs", self.model.output, self.step.output_map),
        ):
            for tensor in declared:
                yield side, tensor.name, mapped.get(tensor.name), spec(tensor)
            if not declared:
                for name in sorted(mapped):
                    yield side, name, mapped[name], {}


def wired(config: Config, models: Models) -> list[Wired]:
    return [Wired(step, models[step.model_name]) for step in ordered(config)]


def ordered(config: Config) -> list[Any]:
    """The steps, each after those it reads from and else as they stand; as they stand where they go in a circle."""
    found = steps(config)
    writers = {tensor: i for i, step in enumerate(found) for tensor in step.output_map.values()}
    sorter = TopologicalSorter(
        {
            i: {writers[tensor] for tensor in step.input_map.values() if tensor in writers}
            for i, step in enumerate(found)
        }
    )
    try:
        sorter.prepare()
    except CycleError:
        return found
    order: list[int] = []
    ready: list[int] = []
    while sorter.is_active():
        for i in sorter.get_ready():
            heapq.heappush(ready, i)
        order.append(heapq.heappop(ready))
        sorter.done(order[-1])
    return [found[i] for i in order]


def all_outputs(config: Config) -> Fields:
    """Triton loads an exposed intermediate, and outputs of different inputs that no step joins: then every request must ask for all outputs."""
    read = {tensor for step in steps(config) for tensor in step.input_map.values()}
    exposed = any(tensor.name in read for tensor in config.output)
    return {"all_outputs": True} if exposed or unjoined(config) else {}


def unjoined(config: Config) -> bool:
    """Whether an output depends on some of the inputs only, and no step on all."""
    inputs = {tensor.name for tensor in config.input}
    needs = {name: {name} for name in inputs}
    joined = False
    for step in ordered(config):
        of_step = set().union(*(needs.get(tensor, set()) for tensor in step.input_map.values()))
        needs |= dict.fromkeys(step.output_map.values(), of_step)
        joined |= of_step == inputs
    return not joined and any(needs.get(tensor.name) != inputs for tensor in config.output)
