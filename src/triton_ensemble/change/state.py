"""The current text of a project's pipeline.yml, and the answers from which its files were made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_ensemble.change import ChangeError
from triton_ensemble.facts.answers import (
    FILE,
    NO_YAML,
    UNMERGED,
    Answers,
    UnreadableAnswers,
    is_unmerged,
    list_changed_answers,
    load_yaml,
    read_answers,
)
from triton_ensemble.facts.reading import read_bytes

PIPELINE = "pipeline.yml"


@dataclass(frozen=True)
class State:
    """The project in `root`, what its pipeline.yml says, and what its files were made from."""

    root: Path
    given: Answers
    made: Answers

    @property
    def is_changed(self) -> bool:
        """Whether pipeline.yml says anything else than the files."""
        return bool(list_changed_answers(self.given, self.made))


def read_state(root: Path) -> State:
    """Read the answers of the project in `root`.

    Raise ChangeError with the place if that is impossible.
    """
    try:
        given, _ = read_answers(root / PIPELINE)
    except UnreadableAnswers as error:
        raise ChangeError(f"{PIPELINE}:{error}") from error
    content = b""
    try:
        content = read_bytes(root / FILE)
        made: Any = load_yaml(content)
    except (OSError, *NO_YAML):
        made = None
    if not isinstance(made, dict) or not isinstance(made.get("owned"), list):
        if is_unmerged(content):
            raise ChangeError(f"{FILE}: has a conflict; {UNMERGED}")
        raise ChangeError(f"{FILE}: can't be read; restore it from an older commit")
    return State(root, given, made)


def is_changed(root: Path) -> bool:
    """Return whether pipeline.yml can't be read, or says anything else than the files of the project."""
    try:
        return read_state(root).is_changed
    except ChangeError:
        return True
