"""Shared by tests: the workflows of generated projects and of this repository: of the right form, for the right machines, and run where that can be done here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import ROOT, Generate, Project

OWN = sorted(ROOT.glob(".github/workflows/*.yml"))


@pytest.fixture(scope="module")
def of_ci(generate: Generate) -> Callable[..., Project]:
    """Return what generates a project of these answers. Tests only read it."""
    return functools.cache(generate)


def workflows(project: Project) -> list[str]:
    return [name for name in project.files() if name.startswith((".github/", ".gitlab-ci"))]


def read(path: Path) -> dict[Any, Any]:
    """Return a workflow. Its `on` is YAML's true."""
    return dict(yaml.safe_load(path.read_text()))
