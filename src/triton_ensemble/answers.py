"""The answers that a project was last made from."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from triton_ensemble.catalog import LOADER

Answers = dict[str, Any]
FILE = ".copier-answers.yml"
# What pipeline.yml leaves out where it is this.
LEFT_OUT: Answers = {"inputs": [], "outputs": [], "ensemble": {}}


class UniqueKeyLoader(yaml.SafeLoader):
    """YAML's own types, where a key that stands twice is an error: YAML forbids it, PyYAML takes the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """Return a mapping; ConstructorError, with the place of the second, where a key stands twice."""
        seen = set()
        for key, _ in node.value:
            if (written := (key.tag, str(key.value))) in seen:
                what = f"{key.value!r} stands twice; drop one"
                raise yaml.constructor.ConstructorError(None, None, what, key.start_mark)
            seen.add(written)
        return super().construct_mapping(node, deep)


def yaml_problem(error: yaml.YAMLError) -> tuple[int, str, str]:
    """Return where a text is no YAML, as a line from 1 on, what is wrong and what to do."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    what, _, instead = str(problem or "is no YAML").partition("; ")
    return (
        mark.line + 1 if mark else 1,
        what,
        instead or "check brackets, quotes and indentation here",
    )


def answers_of(repository: Path) -> Answers:
    """Return the answers of the project around a model repository; empty where it is no project's."""
    try:
        found = yaml.load((repository.parent / FILE).read_bytes(), LOADER)
    except (OSError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) and "steps" in found else {}
