"""Where in pipeline.yml an answer stands, or what a field of config.pbtxt was made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from triton_ensemble.config import Field

Node = Any  # yaml.Node, whose marks have no types
Entry = tuple[str, Node, Node]  # a key or the name of an item, where it stands, and its value
NAMES = ("name", "input_name", "tensor")  # fields by one of which a mapping is known
# The answer that a field of config.pbtxt comes from, where it has another name.
ANSWERS = {
    "allow_ragged_batch": "ragged",
    "count": "instances",
    "data_type": "type",
    "default_model_filename": "file",
    "dynamic_batching": "batching",
    "input": "inputs",
    "instance_group": "instances",
    "kind": "device",
    "label_filename": "labels",
    "model_transaction_policy": "decoupled",
    "model_version": "version",
    "model_warmup": "warmup",
    "optimization": "accelerator",
    "output": "outputs",
    "response_cache": "cache",
    "sequence_batching": "sequence",
    "version_policy": "versions",
}
# Tables whose entries a config has on the level of the model.
UNNAMED = ("tensors", "steps", "inputs", "outputs")


class PipelineLines:
    """The lines of the parts of a pipeline.yml."""

    def __init__(self, root: Node) -> None:
        self.root = root

    def find_line(self, path: Iterable[str | int]) -> int:
        """Return the line of an answer, or of the part around it that the file has."""
        at = node = self.root
        for part in path:
            if not (entry := _part(node, part)):
                return _line(at) + (part if _is_block(node) and isinstance(part, int) else 0)
            _, at, node = entry
        return _line(at)

    def find_config_line(self, names: Iterable[str], path: Iterable[Field]) -> int:
        """Return the line of a config's field: `path` leads to it from the config's outermost field.

        `names` are the possible names of the step from which the model is made.
        """
        at = node = self.root
        for name in names:
            if step := next((each for each in _steps(self.root) if each[0] == name), None):
                _, at, node = step
                break
        for field in path:
            name = ANSWERS.get(field.name, field.name)
            wanted = {name, name.replace("_microseconds", "_us"), *_list_names_in(field)}
            if entry := _entry(node, wanted):
                _, at, node = entry
            elif verbatim := _find_config_line(node, field.name):
                return verbatim
        return _line(at)


def _entries(node: Node) -> Iterator[Entry]:
    if isinstance(node, yaml.MappingNode):
        said = {
            _read_scalar(key): (key, value) for key, value in node.value
        }  # first what is merged in
        yield from ((name, *entry) for name, entry in said.items())
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield _name(value), value, value


def _read_scalar(node: Node) -> str:
    """Return a scalar as the answers have it: of `1_000` that is 1000, and of `on` True."""
    SCALARS.constructed_objects.clear()  # which keeps each node that it has seen
    return str(SCALARS.construct_object(node))


class _Scalars(yaml.SafeLoader):
    """Read scalars, and values with unknown tags as texts."""


_Scalars.add_constructor(None, lambda _, node: node.value)
SCALARS = _Scalars("")


def _name(node: Node) -> str:
    """Return the name of an item; empty without one."""
    inside = {name: value for name, _, value in _entries(node)}
    known_by = [node, *(inside[name] for name in NAMES if name in inside)]
    return next((_read_scalar(each) for each in known_by if isinstance(each, yaml.ScalarNode)), "")


def _part(node: Node, part: str | int) -> Entry | None:
    """Return an entry by its number or key, else by what it is known by; tensors may be listed on no side."""
    entries = [*_entries(node)]
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
        return next(iter(entries[part : part + 1]), None)
    for name in (str(part), "tensors" if part in ("inputs", "outputs") else ""):
        if found := [each for each in entries if each[0] == name]:
            return found[0]
    return next((each for each in entries if _name(each[2]) == part), None)


def _child(node: Node, name: str) -> Node | None:
    return next((value for key, _, value in _entries(node) if key == name), None)


def _steps(node: Node) -> Iterator[Entry]:
    """Iterate over all steps by their names, also inside ensembles."""
    for entry in _entries(_child(node, "steps")):
        yield entry
        yield from _steps(entry[2])


def _iter_visible(node: Node) -> Iterator[Entry]:
    """Iterate over the entries of a node, and over the entries of parts that messages do not name."""
    for key, at, value in _entries(node):
        yield key, at, value
        if key in UNNAMED:
            yield from _entries(value)


def _entry(node: Node, names: set[str]) -> Entry | None:
    return next((entry for entry in _iter_visible(node) if entry[0] in names), None)


def _find_config_line(node: Node, field: str) -> int:
    """Return the line of a field in the text of `config`; 0 where it is not there."""
    text = _child(node, "config")
    if not isinstance(text, yaml.ScalarNode) or field not in text.value:
        return 0
    above: int = text.value[: text.value.index(field)].count("\n")
    return _line(text) + (above + 1 if text.style in ("|", ">") else 0)


def _list_names_in(field: Field) -> set[str]:
    """Return the name and the key of a field, by which its tensor is known."""
    return {each.value for each in field.inside if each.name in ("name", "key")} - {""}


def _is_block(node: Node) -> bool:
    """Return whether a text stands below its key, line by line."""
    return isinstance(node, yaml.ScalarNode) and node.style == "|"


def _line(node: Node) -> int:
    line: int = node.start_mark.line
    return line + 1
