"""The answers that a project was last made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

Answers = dict[str, Any]
FILE = ".copier-answers.yml"
# What pipeline.yml leaves out where it is this.
LEFT_OUT: Answers = {"inputs": [], "outputs": [], "ensemble": {}}


def answers_of(repository: Path) -> Answers:
    """Those of the project around a model repository; none where it is no project's."""
    try:
        found = yaml.safe_load((repository.parent / FILE).read_bytes())
    except (OSError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) and "steps" in found else {}
