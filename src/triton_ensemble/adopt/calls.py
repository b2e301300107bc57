"""Models that Python models call by BLS, and that no ensemble names."""

from __future__ import annotations

from triton_ensemble.adopt.ensembles import Models, models_below
from triton_ensemble.check.calls import find_called_models
from triton_ensemble.config import Model


def add_called(ensemble: Model, models: Models) -> tuple[Models, dict[str, list[str]]]:
    """Return the models that an ensemble needs, and those among them that are only called, by their callers."""
    needed, calls = models_below(ensemble, models), dict[str, list[str]]()
    waiting = list(needed.values())
    while waiting:
        caller = waiting.pop(0)
        for name in sorted(find_called_models(caller, models)):
            if name not in needed and name != ensemble.name:
                calls.setdefault(caller.name, []).append(name)
                found = {name: models[name], **models_below(models[name], models)}
                waiting += [model for other, model in found.items() if other not in needed]
                needed |= found
    return needed, calls


def list_all_calls(models: Models) -> dict[str, set[str]]:
    """Return the models that each model calls."""
    return {name: find_called_models(model, models) for name, model in models.items()}
