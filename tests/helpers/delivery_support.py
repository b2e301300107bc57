"""Shared by tests: the toolkit's wheel: reproducible, installed by its hash from the project and from nowhere else, replaced by updates."""

from __future__ import annotations

import sys

from support import VENV, Project, run, succeed


def environment(project: Project) -> None:
    """Make a .venv that borrows the packages of this repository's, and none of its toolkit."""
    borrow_packages(project, ".venv")
    (project / ".venv/.packages").touch()


def borrow_packages(project: Project, name: str) -> None:
    """Make an environment into which a project can install, with the packages of this repository's."""
    succeed(run(sys.executable, "-m", "venv", name, cwd=project.path))
    [folder] = (project / name / "lib").glob("python3.*/site-packages")
    [packages] = (VENV / "lib").glob("python3.*/site-packages")
    (folder / "borrowed.pth").write_text(f"{packages}\n")
