"""Read JSON as the type that annotations declare, by the standard library alone."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints, is_typeddict

T = TypeVar("T")
NAMES = {str: "a text", int: "an integer", bool: "true or false", list: "a list", dict: "an object"}
SHOWN_CHARACTERS = 40


class MissingField(ValueError):
    """Raised for a field that is not there, as in the file of an older version."""


def read_json(path: Path, kind: type[T]) -> T:
    """Return the content of a file as a type, or raise ValueError with the first wrong field."""
    return read_typed(json.loads(path.read_text(encoding="utf-8")), kind)


def read_typed(value: object, kind: type[T], where: str = "") -> T:
    """Return a value of JSON as a TypedDict, a dataclass, or a type of their fields. Other fields stay, or are left out."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    result: object
    if kind is Any:
        result = value
    elif is_dataclass(kind):
        result = kind(**_fields(value, kind, where))
    elif is_typeddict(kind):
        result = {**_test_candidate(value, dict, where), **_fields(value, kind, where)}
    elif origin in (list, tuple):
        items = enumerate(_test_candidate(value, list, where))
        result = origin(read_typed(item, inner[0], f"{where}[{i}]") for i, item in items)
    elif origin is dict:
        pairs = _test_candidate(value, dict, where).items()
        result = {name: read_typed(item, inner[1], f"{where}.{name}") for name, item in pairs}
    elif origin is UnionType:
        result = read_typed(
            value, next((one for one in inner if type(value) is one), inner[0]), where
        )
    else:
        result = _test_candidate(value, kind, where)
    return cast(T, result)


def _fields(value: object, kind: type, where: str) -> dict[str, object]:
    """Return the declared fields that an object has, or raise MissingField if it lacks a needed field."""
    given, kinds = _test_candidate(value, dict, where), get_type_hints(kind)
    needed = getattr(kind, "__required_keys__", None)
    if needed is None:
        needed = {one.name for one in fields(kind) if one.default is MISSING}
    if missing := ", ".join(sorted(needed - given.keys())):
        raise MissingField(f"{where.lstrip('.')} lacks {missing}".lstrip())
    return {n: read_typed(given[n], of, f"{where}.{n}") for n, of in kinds.items() if n in given}


def _test_candidate(value: object, kind: type[T], where: str) -> T:
    if type(value) is not kind:
        shown = json.dumps(value)[:SHOWN_CHARACTERS]
        raise ValueError(f"{where.lstrip('.') or 'it'} is {shown}, not {NAMES[kind]}")
    return value
