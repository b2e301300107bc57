"""The package as docs/architecture.md draws it, and the files that the documentation names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from support import ROOT

PACKAGE = ROOT / "src" / "triton_ensemble"
PAGES = ["README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/update.md"]
# Folders of this repository whose paths the documentation may name.
FOLDERS = "benchmarks docs examples hooks locks scripts src template tests"
# What the documentation names of generated projects, and names with a part to fill in.
ELSEWHERE = re.compile(
    r"NAME|PACKAGE|X\.Y\.Z|[*<{]|^(tests/(golden|test_steps|test_reference|test_accuracy|test_live)|src/step_types)"
)


def direct(module: str) -> str:
    """Return the part of a module's name that follows triton_ensemble."""
    _, *path = module.split(".")
    return path[0] if path else "triton_ensemble"


def package(module: str) -> str:
    """Return the package of a module, itself if it is one or is not in this package."""
    path = PACKAGE.parent.joinpath(*module.split("."))
    return module.rpartition(".")[0] if path.with_suffix(".py").exists() else module


def imported(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, wherever in it. Relative imports stay in a package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            package = PACKAGE.parent.joinpath(*node.module.split("."))
            for alias in node.names if package.is_dir() else ():
                if (package / alias.name).is_dir() or (package / f"{alias.name}.py").exists():
                    yield f"{node.module}.{alias.name}"
            yield node.module


def arrows() -> set[tuple[str, str]]:
    """Return the arrows from each package to the packages that it imports."""
    pairs = set()
    for path in PACKAGE.rglob("*.py"):
        own = direct(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
        for module in imported(path):
            if module.startswith("triton_"):
                pairs.add((own, direct(module) if module.startswith("triton_ensemble") else module))
    return {(a, b) for a, b in pairs if a != b and b != "triton_ensemble" and a != "__main__"}


def drawn() -> dict[str, set[str]]:
    """Return the arrows of the drawing, from each package to the packages that it points at."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    [drawing] = re.findall(r"^flowchart LR\n( +cli .*?)^```", page, re.MULTILINE | re.DOTALL)
    arrows: dict[str, set[str]] = {}
    for line in drawing.splitlines():
        parts = [part.split("&") for part in line.split("-->")]
        for left, right in pairwise(parts):
            for name in left:
                arrows.setdefault(name.strip(), set()).update(each.strip() for each in right)
    return arrows


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return all packages that the arrows lead to."""
    found: set[str] = set()
    left = [start]
    while left:
        new = graph.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


def test_the_drawing_has_no_circle() -> None:
    graph = drawn()
    assert [name for name in graph if name in reached(graph, name)] == []


def test_packages_have_no_circle() -> None:
    """Packages in a package import each other one way, too."""
    graph: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        own = package(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
        others = {package(module) for module in imported(path)}
        graph.setdefault(own, set()).update(others - {own, "triton_ensemble"})
    assert [name for name in graph if name in reached(graph, name)] == []


def test_imports_go_along_the_arrows() -> None:
    graph = drawn()
    assert {(a, b) for a, b in arrows() if b not in reached(graph, a)} == set()


def test_each_package_is_described() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = {
        name
        for row in re.findall(r"^\| (.*?) \|", page, re.MULTILINE)
        for name in re.findall(r"\w+", row)
    }
    packages = {
        path.stem
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert packages - named - {"__init__", "__main__", "__pycache__"} == set()


@pytest.mark.parametrize("page", PAGES)
def test_the_files_that_a_page_names_exist(page: str) -> None:
    spans = re.findall(r"`([^`\n]+)`", (ROOT / page).read_text())
    paths = [span for span in spans if span.split("/")[0] in FOLDERS.split() and " " not in span]
    missing = []
    for path, _, test in (span.partition("::") for span in paths):
        exists = (ROOT / path).exists()
        if not ELSEWHERE.search(path) and not (
            exists and f"def {test}" in (ROOT / path).read_text() if test else exists
        ):
            missing.append(f"{path}::{test}" if test else path)
    assert missing == []
