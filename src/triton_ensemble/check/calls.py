"""Which models a Python model calls by BLS, as far as its code says."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import suppress

from triton_ensemble.config import Model
from triton_ensemble.config.repository import in_manifest

BLS = "InferenceRequest"  # the class by whose objects code calls a model


def called(model: Model, models: Mapping[str, Model]) -> set[str]:
    """Return those that its step.json names; else those whose names are texts of its parameters, or of code that calls."""
    with suppress(AttributeError, KeyError, TypeError, ValueError):  # another's file of that name
        if manifests := [*model.folder.glob("*/step.json")]:
            return {name for path in manifests for name in in_manifest(path)} & models.keys()
    files = model.folder.rglob("*.py") if model.backend == "python" else ()
    own = (path for path in files if "site-packages" not in path.parts and path.is_file())
    codes = [path.read_bytes() for path in own]
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


def cycles(models: Mapping[str, Model]) -> Iterator[list[str]]:
    """Iterate over the shortest ways on which models call themselves, each once."""
    calls = {name: called(model, models) for name, model in models.items()}
    found = set()
    for start in sorted(calls):
        way = _way_back(start, calls)
        if way and frozenset(way) not in found:
            found.add(frozenset(way))
            yield way


def _way_back(start: str, calls: Mapping[str, set[str]]) -> list[str]:
    """Return the shortest way from a model to itself; empty where there is none."""
    ways, seen = [[start]], set[str]()
    for way in ways:  # grows meanwhile
        for name in sorted(calls[way[-1]] - seen):
            seen.add(name)
            ways.append([*way, name])
            if name == start:
                return ways[-1]
    return []
