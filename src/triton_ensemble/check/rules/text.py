"""The text of a config"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from triton_ensemble.check.examples import ENSEMBLE, replace_in
from triton_ensemble.check.repository import models, unread_models
from triton_ensemble.check.rule import error, warning
from triton_ensemble.facts.config import (
    Field,
    Model,
    Problem,
    UnreadModel,
)

MAPS = ("input_map", "output_map", "inputs", "parameters", "priority_queue_policy")
ENTRY = '    input_map { key: "X" value: "X" }\n'


@error(
    "parse",
    of=unread_models,
    triton="`failed to read text proto from .../config.pbtxt`, and in its log "
    '`Message type "inference.ModelConfig" has no field named "x"`, '
    '`Non-repeated field "x" is specified multiple times`, '
    '`Unknown enumeration value of "FP32" for field "data_type"`, `Expected integer, got: $`, '
    "`Expected identifier, got: \\xc2` (a no-break space, or another character outside ASCII that "
    "is in no quotes), `Invalid escape sequence in string literal.`",
    fails='backend: "python"\nmax_batch: 4\n',
    passes='backend: "python"\nmax_batch_size: 4\n',
)
def parse(model: UnreadModel) -> Iterator[Problem]:
    """A config is written in the fields and types of Triton's model_config.proto."""
    if model.has_config:
        yield model.problem


@warning(
    "map-key-twice",
    of=models,
    triton="takes the last of the two",
    fails=replace_in(ENSEMBLE, "e", ENTRY, ENTRY * 2),
    passes=ENSEMBLE,
)
def map_key_twice(model: Model) -> Iterator[Problem]:
    """A map has each key once."""
    for first, entry in _find_repeated_entries(model):
        if not _is_lost(first, entry):
            yield _problem(model, first, entry)


@error(
    "map-key-lost",
    of=models,
    triton="takes the last of two entries of a map that differ, and says nothing",
    fails=replace_in(ENSEMBLE, "e", ENTRY, ENTRY.replace('value: "X"', 'value: "Z"') + ENTRY),
    passes=ENSEMBLE,
)
def map_key_lost(model: Model) -> Iterator[Problem]:
    """A step maps each input and output of its model once."""
    for first, entry in _find_repeated_entries(model):
        if _is_lost(first, entry):
            yield _problem(model, first, entry)


def _find_repeated_entries(model: Model) -> Iterator[tuple[Field, Field]]:
    """Iterate over entries whose keys stand in their maps before, after the first of that key."""
    for owner in model.fields.walk():
        firsts: dict[tuple[str, str], Field] = {}
        for entry in owner.inside:
            if entry.name in MAPS and entry.find_fields("key"):
                first = firsts.setdefault((entry.name, entry.key), entry)
                if first is not entry:
                    yield first, entry


def _is_lost(first: Field, entry: Field) -> bool:
    return entry.name.endswith("_map") and _content(first) != _content(entry)


def _content(field: Field) -> Any:
    """Return what a field says, without the lines."""
    return field.name, field.value, [_content(each) for each in field.inside]


def _problem(model: Model, first: Field, entry: Field) -> Problem:
    what = f"{entry.name} has the key {entry.key!r} twice, and Triton takes the last"
    return Problem(model.path, entry.line, what, f"drop one; the first is in line {first.line}")
