"""Where in pipeline.yml an answer stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import yaml

Node = Any  # yaml.Node, whose marks have no types
Entry = tuple[str, Node, Node]  # a key or the name of an item, where it stands, and its value
NAMES = ("name", "input_name", "tensor")  # fields by one of which a mapping is known


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
    """Return the name of an item, or an empty string without one."""
    inside = {name: value for name, _, value in _entries(node)}
    known_by = [node, *(inside[name] for name in NAMES if name in inside)]
    return next((_read_scalar(each) for each in known_by if isinstance(each, yaml.ScalarNode)), "")


def _part(node: Node, part: str | int) -> Entry | None:
    """Return an entry by its number or key, or else by what it is known by.

    Tensors may be listed on no side, under `tensors`.
    """
    entries = [*_entries(node)]
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
        return next(iter(entries[part : part + 1]), None)
    for name in (str(part), "tensors" if part in ("inputs", "outputs") else ""):
        if found := [each for each in entries if each[0] == name]:
            return found[0]
    return next((each for each in entries if _name(each[2]) == part), None)


def _is_block(node: Node) -> bool:
    """Return whether a text stands below its key, line by line."""
    return isinstance(node, yaml.ScalarNode) and node.style == "|"


def _line(node: Node) -> int:
    line: int = node.start_mark.line
    return line + 1
