"""Imports of steps that are not there: packages that pipeline.yml does not declare, types of steps that are gone."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from triton_ensemble.facts.project import Project

FIRST_PARTY = {"numpy", "steps", "step_types", "triton_step"}


def iter_undeclared(project: Project, path: Path) -> Iterator[str]:
    """Yield a line for each package that a file of steps/ imports undeclared, with what to do."""
    declared = {canonicalize_name(Requirement(text).name) for text in project.requirements}
    distributions = importlib.metadata.packages_distributions()
    for name in sorted(_list_imported(path) - FIRST_PARTY - sys.stdlib_module_names):
        owners = {canonicalize_name(owner) for owner in distributions.get(name, [name])}
        if not owners & declared:
            yield (
                f"{path.relative_to(project.root)} imports {name}; add {' or '.join(sorted(owners))} "
                "to the step's requirements in pipeline.yml"
            )


def find_gone_types(project: Project, path: Path) -> Iterator[str]:
    """Yield a line for code in steps/ that no step has, and whose types are gone: it can't be imported."""
    steps = {module for served in project.step_modules.values() for module in served}
    types = (project.root / "src" / "step_types.py").read_text(encoding="utf-8")
    used = set(re.findall(r"\b\w+Outputs\b", path.read_text(encoding="utf-8", errors="replace")))
    gone = sorted(used - set(re.findall(r"\w+", types)))
    if gone and path.stem not in steps:
        yield (
            f"{path.relative_to(project.root)} is of no step in pipeline.yml, and {', '.join(gone)} of "
            "src/step_types.py is gone; remove the file, and what imports it"
        )


def _list_imported(path: Path) -> set[str]:
    """Return the top-level packages that a file imports, or an empty set if it is not Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}
