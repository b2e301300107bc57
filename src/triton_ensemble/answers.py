"""The answers that a project was last made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from triton_ensemble.catalog import LOADER

Answers = dict[str, Any]
FILE = ".copier-answers.yml"
# What pipeline.yml leaves out where it is this.
LEFT_OUT: Answers = {"inputs": [], "outputs": [], "ensemble": {}}


def answers_of(repository: Path) -> Answers:
    """Return the answers of the project around a model repository; empty where it is no project's."""
    try:
        found = yaml.load((repository.parent / FILE).read_bytes(), LOADER)
    except (OSError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) and "steps" in found else {}
