"""Calls of other models"""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.check.calls import cycles
from triton_ensemble.check.examples import MODEL
from triton_ensemble.check.repository import Repository
from triton_ensemble.check.rule import warning
from triton_ensemble.config import Model, Problem


def calling(name: str) -> str:
    """Return the code of a model that may call another one."""
    body = f"request = pb_utils.InferenceRequest(model_name='{name}')\n        "
    return MODEL.replace("return", f"{body}return")


def in_cycles(repository: Repository) -> Iterator[tuple[Model, list[str]]]:
    """Iterate over the models that call themselves over others, one of each cycle, with the names on the way."""
    return ((repository.models[way[0]], way) for way in cycles(repository.models))


@warning(
    "calls-cycle",
    of=in_cycles,
    triton="loads them; once all instances wait for each other, requests wait for ever",
    fails={
        "a": 'backend: "python"\n',
        "a/1/model.py": calling("b"),
        "b": 'backend: "python"\n',
        "b/1/model.py": calling("a"),
    },
    passes={
        "a": 'backend: "python"\n',
        "a/1/model.py": calling("b"),
        "b": 'backend: "python"\n',
        "b/1/model.py": MODEL,
    },
)
def calls_cycle(found: tuple[Model, list[str]]) -> Iterator[Problem]:
    """Python models that call others by BLS do not call each other, as far as their code names them."""
    model, way = found
    what = f"models name each other in code that calls models: {' -> '.join(way)}"
    instead = (
        "let one answer without the others: they wait for each other for ever once all instances do"
    )
    yield model.problem(what, instead)
