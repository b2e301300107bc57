"""Models that Python models call by BLS, and that no ensemble names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from triton_ensemble.author.adopt.computed import find_computed_calls
from triton_ensemble.author.adopt.ensembles import Models, declares_all, models_below
from triton_ensemble.check.calls import find_called_models
from triton_ensemble.check.repository import Repository
from triton_ensemble.facts.config import Model


@dataclass(frozen=True)
class Calls:
    """The calls of a repository's models, by the caller."""

    named: Mapping[str, set[str]]  # the folders that each model's code names
    computed: Mapping[str, list[str]]  # the places of calls of a model that no text names

    def add_called(
        self, ensemble: Model, models: Models, faulty: Collection[str]
    ) -> tuple[Models, dict[str, list[str]]]:
        """Return the models that an ensemble needs, and those among them that are only called, by their callers.

        A computed name may be that of any model, but not of the `faulty` ones.
        """
        needed, calls = models_below(ensemble, models), dict[str, list[str]]()
        waiting = list(needed.values())
        while waiting:
            caller = waiting.pop(0)
            called = [*sorted(self.named.get(caller.name, set()) & models.keys())]
            if caller.name in self.computed:
                called += iter_callable(caller, models, faulty)
            for name in called:
                if name not in needed and name != ensemble.name:
                    calls.setdefault(caller.name, []).append(name)
                    found = {name: models[name], **models_below(models[name], models)}
                    waiting += [model for other, model in found.items() if other not in needed]
                    needed |= found
        return needed, calls

    def list_missing(self, models: Models) -> set[str]:
        """Return the folders that these models name by steps or in code, but that are not among these models."""
        steps = {step.model_name for model in models.values() for step in model.steps}
        return steps.union(*(self.named.get(name, ()) for name in models)) - models.keys()


def iter_callable(caller: Model, models: Models, faulty: Collection[str]) -> Iterator[str]:
    """Iterate over the models that may be called by any name: those that declare tensors, and do not use the caller."""
    for name, model in models.items():
        below = {name: model, **models_below(model, models)}
        is_sound = all(map(declares_all, below.values())) and {*faulty}.isdisjoint(below)
        if caller.name not in below and is_sound:
            yield name


def find_calls(repository: Repository) -> Calls:
    """Return the calls of each model."""
    models = repository.models
    named = {name: find_called_models(model, repository.folders) for name, model in models.items()}
    places = {name: find_computed_calls(model) for name, model in models.items()}
    return Calls(named, {name: each for name, each in places.items() if each})
