"""Models that Python models call by BLS, and that no ensemble names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress

from triton_ensemble.adopt.ensembles import Models, models_below
from triton_ensemble.config import Model

BLS = "InferenceRequest"  # the class by whose objects code calls a model


def with_called(ensemble: Model, models: Models) -> tuple[Models, dict[str, list[str]]]:
    """Return the models that an ensemble needs, and those among them that are only called, by their callers."""
    needed, calls = models_below(ensemble, models), dict[str, list[str]]()
    waiting = list(needed.values())
    while waiting:
        caller = waiting.pop(0)
        for name in sorted(called(caller, models)):
            if name not in needed and name != ensemble.name:
                calls.setdefault(caller.name, []).append(name)
                found = {name: models[name], **models_below(models[name], models)}
                waiting += [model for other, model in found.items() if other not in needed]
                needed |= found
    return needed, calls


def all_called(models: Models) -> set[str]:
    """Return the models that others call."""
    return set().union(*(called(model, models) for model in models.values()))


def called(model: Model, models: Models) -> set[str]:
    """Return the models whose names stand as texts in a Python model's code that calls some, or in its parameters."""
    files = model.folder.rglob("*.py") if model.backend == "python" else ()
    codes = [path.read_bytes() for path in files if "site-packages" not in path.parts]
    if not any(BLS.encode() in code for code in codes):
        return set()
    texts = {parameter.string_value for parameter in model.config.parameters.values()}
    for node in (node for code in codes for node in nodes(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value)
    return (texts & models.keys()) - {model.name}


def nodes(code: bytes) -> Iterator[ast.AST]:
    """Iterate over the nodes of a Python file's tree; over none where it is no Python."""
    with suppress(SyntaxError, ValueError):
        yield from ast.walk(ast.parse(code))
