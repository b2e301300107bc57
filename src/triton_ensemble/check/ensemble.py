"""An ensemble: who reads and writes each of its tensors, and what follows from its inputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from triton_ensemble.check.wiring import Meeting, Wiring
from triton_ensemble.facts.config import (
    Model,
    ModelConfig,
    Part,
    Problem,
    UnreadModel,
)

SCHEDULING = "ensemble_scheduling"
Place = tuple[Part, ...]
Models = Mapping[str, Model | UnreadModel]


class Use(NamedTuple):
    """Where a step says which of the ensemble's tensors is its model's input or output `key`."""

    step: int  # the first is 0
    side: str  # input or output
    key: str
    tensor: str

    @property
    def place(self) -> Place:
        """The place of the map's entry in the ensemble's config."""
        return (SCHEDULING, ("step", self.step), (f"{self.side}_map", self.key))


class Ensemble:
    """A model that says it is an ensemble, in its repository."""

    def __init__(self, model: Model, models: Models) -> None:
        self.model = model
        self.models = models

    @property
    def name(self) -> str:
        """The name of the ensemble."""
        return self.model.name

    @property
    def config(self) -> ModelConfig:
        """The config of the ensemble."""
        return self.model.config

    def problem(self, what: str, instead: str, *place: Part) -> Problem:
        """Return a problem at a field of the ensemble's config."""
        return self.model.problem(what, instead, *place)

    def problem_at(self, at: Meeting, what: str, instead: str) -> Problem:
        """Return a problem where a step's map names a tensor."""
        return self.problem(what, instead, *Use(at.step, at.side, at.key, at.name).place)

    @cached_property
    def steps(self) -> list[Any]:
        """The steps, as they are listed."""
        return self.model.steps

    @cached_property
    def optional_inputs(self) -> set[str]:
        """The names of the inputs that requests may leave out."""
        return {tensor.name for tensor in self.config.input if tensor.optional}

    @cached_property
    def inputs(self) -> dict[str, int]:
        """The index of each input, by name."""
        return {tensor.name: i for i, tensor in enumerate(self.config.input)}

    @cached_property
    def outputs(self) -> dict[str, int]:
        """The index of each output, by name."""
        return {tensor.name: i for i, tensor in enumerate(self.config.output)}

    def uses(self, side: str) -> Iterator[Use]:
        """Iterate over what the steps read (`input`) or write (`output`)."""
        for i, step in enumerate(self.steps):
            for key, tensor in sorted(getattr(step, f"{side}_map").items()):
                yield Use(i, side, key, tensor)

    @cached_property
    def readers(self) -> dict[str, Use]:
        """The first use that reads each tensor."""
        return _first(self.uses("input"))

    @cached_property
    def writers(self) -> dict[str, Use]:
        """The first use that writes each tensor."""
        return _first(self.uses("output"))

    @cached_property
    def connected(self) -> set[str]:
        """The tensors that follow from the ensemble's inputs."""
        return self.sources.keys() | self.inputs.keys()

    @cached_property
    def sources(self) -> dict[str, set[str]]:
        """The inputs of the ensemble that each connected tensor depends on."""
        sources = {name: {name} for name in self.inputs}
        waiting = deque(self.steps)
        passed_over = 0
        while waiting and passed_over < len(waiting):
            step = waiting.popleft()
            if sources.keys() >= {*step.input_map.values()}:
                of_step = self.sources_of(step, sources)
                sources |= dict.fromkeys(step.output_map.values(), of_step)
                passed_over = 0
            else:
                waiting.append(step)
                passed_over += 1
        return sources

    @staticmethod
    def sources_of(step: Any, sources: dict[str, set[str]]) -> set[str]:
        """Return the inputs of the ensemble that a step depends on."""
        return set().union(*(sources[tensor] for tensor in step.input_map.values()))

    def stuck_tensor(self, asked: set[str]) -> str:
        """Return a tensor by which a request for these outputs deadlocks, or an empty string if it does not.

        Triton skips steps that write nothing that is asked for, and what is read by these alone (server#7482).
        """
        ignored, kept = self.outputs.keys() - asked, self.steps
        while True:
            writing = [step for step in kept if not ignored >= {*step.output_map.values()}]
            read = {tensor for step in writing for tensor in step.input_map.values()}
            if len(writing) == len(kept):
                return min(ignored & (asked | read), default="")
            by_skipped = {tensor for step in kept for tensor in step.input_map.values()} - read
            ignored, kept = ignored | by_skipped, writing

    @cached_property
    def cycle(self) -> list[str]:
        """The ensembles from this one back to itself, or an empty list without such a cycle."""
        paths = deque([[self.name]])
        seen: set[str] = set()
        while paths:
            path = paths.popleft()
            for name in _iter_composing_models(path[-1], self.models):
                if name == self.name:
                    return [*path, name]
                if name not in seen:
                    seen.add(name)
                    paths.append([*path, name])
        return []

    def iter_composing_models(self) -> Iterator[tuple[int, Any, Model]]:
        """Iterate over the index of each step, the step and its model, if its config could be read."""
        if self.cycle:
            return
        for i, step in enumerate(self.steps):
            model = self.models.get(step.model_name)
            if isinstance(model, Model):
                yield i, step, model

    @cached_property
    def wiring(self) -> Wiring:
        """The connections of its tensors with the composing models, empty unless all of these are known."""
        composing = [*self.iter_composing_models()]
        if len(composing) < len(self.steps) or self.cycle:
            composing = []
        names = {model.name for _, _, model in composing}
        decoupled = {name for name in names if is_decoupled(name, self.models)}
        return Wiring(self.model, composing, decoupled)


def is_decoupled(name: str, models: Models, above: tuple[str, ...] = ()) -> bool:
    """Return whether a model is decoupled. For an ensemble, its composing models decide."""
    model = models.get(name)
    if not isinstance(model, Model) or name in above:
        return False
    if not model.is_ensemble:
        return bool(model.config.model_transaction_policy.decoupled)
    return any(
        is_decoupled(each, models, (*above, name)) for each in _iter_composing_models(name, models)
    )


def _iter_composing_models(name: str, models: Models) -> Iterator[str]:
    model = models.get(name)
    return (step.model_name for step in model.steps) if isinstance(model, Model) else iter(())


def _first(uses: Iterator[Use]) -> dict[str, Use]:
    first: dict[str, Use] = {}
    for use in uses:
        first.setdefault(use.tensor, use)
    return first
