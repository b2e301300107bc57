"""Where in pipeline.yml stands what a message is about, as far as the message says so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from triton_ensemble.config import Field

Node = Any  # yaml.Node, whose marks have no types
Entry = tuple[str, Node, Node]  # a key or an index (from 1 on), where it stands, and its value
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
# Mappings that a message does not name when it names what is in them.
UNNAMED = ("tensors", "steps", "inputs", "outputs")


class PipelineLines:
    """The lines of a pipeline.yml, found by the words of messages."""

    def __init__(self, root: Node) -> None:
        self.root = root

    def of_problem(self, line: str) -> int:
        """Return the line that a problem of the template's rules is about: that of the deepest field it names."""
        at, node, rest = self.root, self.root, line
        while step := _named_step(node, rest):
            at, node, rest = step
        words = rest.replace("`", " ").replace(":", " ").strip()
        return _line(_descend(at, node, words) or _mention(node, rest) or at)

    def of_model(self, names: Iterable[str], path: Iterable[Field], words: str = "") -> int:
        """Return the line of a config's field: `path` leads to it from the config's outermost field.

        `names` are those that a step may have which the model is made from.
        """
        at = node = self.root
        for name in names:
            if step := next((each for each in _steps(self.root) if each[0] == name), None):
                _, at, node = step
                break
        for field in path:
            name = ANSWERS.get(field.name, field.name)
            wanted = {name, name.replace("_microseconds", "_us"), *_names_in(field)}
            if entry := _entry(node, wanted):
                _, at, node = entry
            elif verbatim := _in_config(node, field.name):
                return verbatim
        return _line(at if at is not node else _mention(node, words) or at)


def _entries(node: Node) -> Iterator[Entry]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield str(key.value), key, value
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value, 1):
            own = value.value if isinstance(value, yaml.ScalarNode) else str(i)
            yield own, value, value


def _child(node: Node, name: str) -> Node | None:
    return next((value for key, _, value in _entries(node) if key == name), None)


def _steps(node: Node) -> Iterator[Entry]:
    """Iterate over all steps, those of ensembles inside too, by their names."""
    for index, at, step in _entries(_child(node, "steps")):
        name = _child(step, "name")
        yield (name.value if isinstance(name, yaml.ScalarNode) else index), at, step
        yield from _steps(step)


def _named_step(node: Node, line: str) -> tuple[Node, Node, str] | None:
    for name, at, step in _steps(node):
        for prefix in (f"step {name}: ", f"step {name}, inside: "):
            if line.startswith(prefix):
                return at, step, line[len(prefix) :]
    return None


def _descend(at: Node, node: Node, words: str) -> Node | None:
    """Return the deepest node that the first words name, one a level; nothing where they name none."""
    words = words.removeprefix("tensor ").removeprefix("has ").removeprefix("the ").lstrip()
    for key, where, value in _visible(node):
        if words == key or words.startswith(f"{key} "):
            return _descend(where, value, words[len(key) :]) or where
    return None


def _visible(node: Node) -> Iterator[Entry]:
    """Iterate over the entries of a node, and over those of the parts that messages do not name."""
    for key, at, value in _entries(node):
        yield key, at, value
        if key in UNNAMED:
            yield from _entries(value)


def _entry(node: Node, names: set[str]) -> Entry | None:
    return next((entry for entry in _visible(node) if entry[0] in names), None)


def _in_config(node: Node, field: str) -> int:
    """Return the line of a field in the text of `config`; 0 where it is not there."""
    text = _child(node, "config")
    if not isinstance(text, yaml.ScalarNode) or field not in text.value:
        return 0
    above: int = text.value[: text.value.index(field)].count("\n")
    return _line(text) + (above + 1 if text.style in ("|", ">") else 0)


def _names_in(field: Field) -> set[str]:
    """Return the name and the key of a field, by which its tensor is known."""
    return {each.value for each in field.inside if each.name in ("name", "key")} - {""}


def _mention(node: Node, words: str) -> Node | None:
    """Return the part of a node that the words mention first: a field in backquotes, or a tensor's name."""
    places: list[tuple[int, Node]] = []
    for pattern, at in _patterns(node, of_tensors=False):
        if found := re.search(pattern, words):
            places.append((found.start(), at))
    return min(places, key=lambda place: place[0])[1] if places else None


def _patterns(node: Node, of_tensors: bool) -> Iterator[tuple[str, Node]]:
    for key, at, value in _entries(node):
        name = re.escape(key)
        yield rf"(?<![\w.-]){name}(?![\w-])" if of_tensors else f"`{name}`", at
        if isinstance(value, yaml.ScalarNode):
            if of_tensors and value is not at:
                yield rf"(?<![\w.-]){re.escape(value.value)}(?![\w-])", value
        elif key != "steps":
            yield from _patterns(value, of_tensors or key in UNNAMED)


def _line(node: Node) -> int:
    line: int = node.start_mark.line
    return line + 1
