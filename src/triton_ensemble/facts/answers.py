"""The answers of a project: the current ones in pipeline.yml, and those from which it was last made."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from triton_ensemble.facts.catalog import LOADER
from triton_ensemble.facts.reading import read_bytes
from triton_ensemble.facts.terminal import shorten

Answers = dict[str, Any]
FILE = ".copier-answers.yml"
# What to do with a file of answers that git could not merge: either side will do, as apply brings it to pipeline.yml.
UNMERGED = f"merge pipeline.yml by hand, then run: git checkout --ours {FILE} && make apply"
# What pipeline.yml leaves out where it is this.
LEFT_OUT: Answers = {
    "inputs": [], "outputs": [], "ensemble": {}, "openai": {}, "stages": {}, "torch_index": ""
}  # fmt: skip
NO_YAML = (yaml.YAMLError, RecursionError, ValueError)  # what PyYAML raises
OTHER_NUMBER = re.compile("[-+]?(0[0-9_]+|[0-9_]+:.*)")  # octal, or of minutes and seconds
DEEPEST = 200  # collections in each other
MOST_VALUES = (
    100_000  # with aliases a kilobyte can say a billion, and whatever prints them is at it for ever
)


class UnreadableAnswers(Exception):
    """Raised for a file without readable answers, with the line, what is wrong and what to do."""

    def __init__(self, line: int, what: str, instead: str) -> None:
        super().__init__(f"{line}: {what}; {instead}")
        self.line, self.what, self.instead = line, what, instead


class UniqueKeyLoader(yaml.SafeLoader):
    """YAML's own types, with an error for a key that is written twice: YAML forbids it, but PyYAML takes the last."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        """Return a mapping before others are merged into it. Raise MarkedYAMLError if a key is written twice."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _error("has a key that is a list or a mapping", "write a text", key)
            if (written := (key.tag, str(key.value))) in seen:
                raise _error(f"{key.value!r} is written twice", "drop one", key)
            seen.add(written)
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Return the value of a node.

        Raise MarkedYAMLError, with the place, if the value looks like another number or date.
        """
        try:
            said = super().construct_object(node, deep)
        except ValueError as error:
            what = f"{node.value} can't be read: {error}"
            raise _error(what, "write a text in quotes", node) from error
        if type(said) is int and OTHER_NUMBER.fullmatch(node.value):
            what = f"{node.value} is {said} to YAML"
            raise _error(what, f"write {said}, or a text in quotes", node)
        return said


def read_answers(path: Path) -> tuple[Answers, yaml.MappingNode]:
    """Return the answers of a pipeline.yml, and their places in it.

    Raise UnreadableAnswers if it has none, or OSError if it can't be read.
    """
    content = read_bytes(path)
    try:
        given, node = _parse(content.decode(), UniqueKeyLoader)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UnreadableAnswers(line, "is not UTF-8", "save it as UTF-8") from error
    except yaml.reader.ReaderError as error:
        line = content.decode()[: error.position].count("\n") + 1
        what = f"has the control character {chr(error.character)!a}"
        raise UnreadableAnswers(line, what, "drop it") from error
    except yaml.YAMLError as error:
        raise UnreadableAnswers(*yaml_problem(error)) from error
    except RecursionError as error:
        raise UnreadableAnswers(1, "goes too deep", "drop some of its brackets") from error
    if not isinstance(given, dict) or not isinstance(node, yaml.MappingNode):
        raise UnreadableAnswers(1, "has no answers", "write `NAME: VALUE`")
    for key, name in zip(node.value, given, strict=False):
        if not isinstance(name, str):
            what = f"has the key {key[0].value}, which YAML does not read as text"
            raise UnreadableAnswers(key[0].start_mark.line + 1, what, "write it in quotes")
    return given, node


def load_yaml(content: bytes) -> Any:
    """Return the value of a YAML text.

    Raise an error of NO_YAML if the text is not YAML, goes too deep or says too many values.
    """
    return _parse(content, LOADER)[0]


def _check_depth(text: str | bytes) -> None:
    """Raise RecursionError for a text that goes too deep.

    libyaml would overflow the stack at it, and PyYAML's own parser would take a minute.
    """
    depth = 0
    with suppress(yaml.YAMLError, ValueError):  # which the loader finds too
        for event in yaml.parse(text, LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise RecursionError


def _parse(text: str | bytes, kind: Any) -> tuple[Any, yaml.Node | None]:
    _check_depth(text)
    loader = kind(text)
    try:
        node = loader.get_single_node()
        _count(node, {})
        return loader.construct_document(node) if node else None, node
    finally:
        loader.dispose()


def _count(node: Any, known: dict[int, int]) -> int:
    """Return how many values a node has, with an alias counted at each use.

    Raise MarkedYAMLError if they are too many.
    """
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in known:
        known[id(node)] = MOST_VALUES  # until it is counted: then it holds itself
        inside = [each for item in node.value for each in (item if type(item) is tuple else [item])]
        known[id(node)] = sum(_count(each, known) for each in inside)
    if known[id(node)] >= MOST_VALUES:
        what = f"says more than {MOST_VALUES} values by its aliases"
        raise _error(what, "write out what they stand for", node)
    return known[id(node)]


def _error(what: str, instead: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    """Return our own error at a node. Its note says what to write, which PyYAML's own errors do not."""
    return yaml.MarkedYAMLError(None, None, shorten(what), node.start_mark, instead)


def yaml_problem(error: yaml.YAMLError) -> tuple[int, str, str]:
    """Return why a text is not YAML: the line from 1 on, what is wrong and what to do."""
    mark, instead = getattr(error, "problem_mark", None), getattr(error, "note", None)
    what = str(getattr(error, "problem", None) or "is not YAML")
    if mark and not instead:  # one of YAML's own, about what may stand anywhere in its line
        what = f"column {mark.column + 1}: {what}"
    return (
        mark.line + 1 if mark else 1,
        what,
        instead or "check brackets, quotes and indentation here",
    )


def answers_of(repository: Path) -> Answers:
    """Return the answers of the project around a model repository, or an empty mapping outside a project."""
    try:
        found = load_yaml(read_bytes(repository.parent / FILE))
    except (OSError, *NO_YAML):
        return {}
    return found if isinstance(found, dict) and not list_wrong_answers(found) else {}


def is_unmerged(content: bytes) -> bool:
    """Return whether a file has the marks of a conflict, as git writes them."""
    return b"<<<<<<< " in content and b">>>>>>> " in content


def list_changed_answers(given: Answers, made: Answers) -> list[str]:
    """Return the names of answers that a project was not made from, in the order of pipeline.yml."""
    left_out = [name for name in LEFT_OUT if name not in given]
    changed = [name for name in given if not _is_same(given[name], made.get(name), name)]
    return [name for name in left_out if made.get(name, LEFT_OUT[name]) != LEFT_OUT[name]] + changed


def _is_same(one: Any, other: Any, question: str) -> bool:
    """Return whether two answers to a question are the same.

    The order of `extras` does not count, because Copier writes them in the order of their choices.
    """
    if question == "extras" and isinstance(one, list) and isinstance(other, list):
        return sorted(map(str, one)) == sorted(map(str, other))
    return bool(one == other)


def list_wrong_answers(answers: Answers) -> list[str]:
    """Return the names of saved answers, or of a step that is an ensemble, without the form that the check relies on."""
    name = answers.get("ensemble_name", answers.get("name"))
    stages, steps = answers.get("stages") or {}, answers.get("steps")
    forms = {
        "ensemble": isinstance(answers.get("ensemble"), dict | bool | None),
        "ensemble_name": isinstance(name, str | int | None),
        "gpu_count": _has_gpu_count(answers),
        "stages": isinstance(stages, dict) and all(map(_has_gpu_count, stages.values())),
        "steps": isinstance(steps, list) and all(map(_is_step, steps)),
    }
    return [name for name, fits in forms.items() if not fits]


def _has_gpu_count(answers: Any) -> bool:
    return isinstance(answers, dict) and isinstance(answers.get("gpu_count"), int | None)


def _is_step(step: Any) -> bool:
    """Return whether a step is of this template, by its form."""
    return (
        isinstance(step, dict)
        and isinstance(step.get("name"), str | int)
        and isinstance(requirements := step.get("requirements", []) or [], list)
        and all(isinstance(each, str) for each in requirements)
        and ("steps" not in step or not list_wrong_answers(step))
    )
