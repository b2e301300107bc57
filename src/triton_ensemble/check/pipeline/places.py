"""The place in the answers that a line of a generated config.pbtxt comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped, unused-ignore]

from triton_ensemble.facts import catalog
from triton_ensemble.facts.answers import Answers
from triton_ensemble.facts.config import Field
from triton_ensemble.facts.config.fields import fields_of

Where = list[str | int]
Level = tuple[Where, Answers]  # where a step, an ensemble or the pipeline is, and its answers
# The answer that a field of config.pbtxt comes from, where it has another name.
ANSWERS = {
    "allow_ragged_batch": "ragged",
    "count": "instances",
    "data_type": "type",
    "dynamic_batching": "batching",
    "enable": "cache",
    "input": "inputs",
    "instance_group": "instances",
    "kind": "device",
    "label_filename": "labels",
    "model_version": "version",
    "model_warmup": "warmup",
    "optimization": "accelerator",
    "output": "outputs",
    "sequence_batching": "sequence",
    "version_policy": "versions",
    **{row["config"].split(".")[0]: name for name, row in catalog.field_rows().items()},
}
# Answers that are lists, in the order of the config, and those whose entries have names.
LISTED = {
    "instances",
    "warmup",
    "control_input",
    "control",
    "state",
    "initial_state",
    "preferred_batch_size",
    "gpus",
}
BY_NAME = {"inputs", "outputs", "parameters", "metric_tags", "priority_queue_policy"}


def find_place(answered: Answers, model: str, text: str, line: int) -> Where:
    """Return the place that a line of the config of a model comes from, or the part around it."""
    levels = [*_levels(answered, model)] or [([], answered)]
    return max((_find_in(level, text, line, answered) for level in levels), key=len)


def name_place(where: Where) -> tuple[list[str], str]:
    """Return how a sentence names the step or ensemble of a place, and the field in it by its answers."""
    names, rest = list[str](), where
    while rest[:1] == ["steps"] and len(rest) > 1:
        names, rest = [*names, f"step {rest[1]}: "], rest[2:]
    owner = [f"{name.removesuffix(': ')}, inside: " for name in names[:-1]] + names[-1:]
    field = ".".join(str(part) for part in rest if isinstance(part, str) and part != "ensemble")
    if rest[:1] == ["ensemble"] or (not names and field.partition(".")[0] in ("inputs", "outputs")):
        owner = [f"{name.removesuffix(': ')}, inside: " for name in names] + ["ensemble: "]
    return owner, field


def put_in_words_of_answers(text: str) -> str:
    """Return a text with the answers' names for fields of config.pbtxt."""
    text = re.sub(r"\bKIND_([A-Z]+)", lambda kind: f"`device: {kind[1].lower()}`", text)
    names = r"\b(?!data_type\b)[a-z]+(_[a-z]+)+\b"  # a control has a `data_type` here too
    return re.sub(names, lambda name: ANSWERS.get(name[0], name[0]), text)


def split_lists(config: str) -> str:
    """Return a generated config with a line for each number of the lists that rules look into."""
    lists = r"^ *(preferred_batch_size|gpus): \[.*\]$"
    return re.sub(lists, lambda line: line[0].replace(", ", ",\n"), config, flags=re.MULTILINE)


def _levels(answered: Answers, model: str) -> Iterator[Level]:
    """Iterate over the steps from which a model is made: its own, or all that share it."""
    named = dict(_steps(answered, []))
    fused = (each.get("steps", []) for each in answered["graph"]["models"] if each["name"] == model)
    for name in [model, *(step["name"] for steps in fused for step in steps)]:
        if name in named:
            yield named[name]


def _steps(owner: Answers, where: Where) -> Iterator[tuple[str, Level]]:
    """Iterate over all steps by name, also inside ensembles."""
    for step in owner.get("steps") or []:
        at = [*where, "steps", step["name"]]
        yield step["name"], (at, step)
        yield from _steps(step, at)


def _find_in(level: Level, text: str, line: int, answered: Answers) -> Where:
    where, given = level
    if "steps" in given:
        given = given if isinstance(given.get("ensemble"), Mapping) else {**given, "ensemble": {}}
    owner = given["ensemble"] if "steps" in given else given
    above = text.count("\n") - str(owner.get("config", "")).rstrip().count("\n") - 1
    if owner.get("config") and line > above:
        return [*where, *(["ensemble"] if "steps" in given else []), "config", line - above]
    try:
        fields = [*_fields_around(line, fields_of(text))]
    except text_format.ParseError:
        return where
    if fields and fields[0][0].name == "ensemble_scheduling":
        called = [each.value for field, _ in fields for each in field.find_fields("model_name")]
        if called:
            return next((at for name in called for at, _ in _levels(answered, name)), where)
        fields = fields[1:]
    inside = _follow(given, fields)
    if not inside and "steps" in given and (inside := _follow(owner, fields)):
        inside = ["ensemble", *inside]
    return [*where, *inside]


def _fields_around(line: int, field: Field) -> Iterator[tuple[Field, int]]:
    """Iterate over the fields around a line, from the outermost on, each with its number among those named alike."""
    while before := [each for each in field.inside if each.line <= line]:
        field = before[-1]
        yield field, sum(each.name == field.name for each in before) - 1


def _follow(given: Any, fields: list[tuple[Field, int]]) -> Where:
    """Return the way from some answers to what fields of a config say, as far as the answers have it."""
    where: Where = []
    for field, number in fields:
        if not isinstance(given, Mapping) or field.name in ("name", "key", "value"):
            continue
        if (name := _answer(field, given)) is None:
            continue
        where, given = [*where, name], given[name]
        key = _key(field)
        if name in BY_NAME and isinstance(given, Mapping | list) and key in map(str, given):
            where.append(key)
            given = given.get(key) if isinstance(given, Mapping) else None
        elif isinstance(given, list) and given[number:] and name in LISTED:
            where, given = [*where, number], given[number]
    return where


def _answer(field: Field, given: Mapping[str, Any]) -> str | None:
    """Return the answer of the name that a field has there, unless only the fields inside have answers."""
    names = (field.name, ANSWERS.get(field.name, ""), field.name.replace("_microseconds", "_us"))
    if field.name == "instance_group" and not isinstance(given.get("instances"), list):
        return None
    return next((name for name in names if name in given), None)


def _key(field: Field) -> str:
    """Return what a field is known by: its key in a map, or its name."""
    return next((each.value for each in field.inside if each.name in ("key", "name")), "")
