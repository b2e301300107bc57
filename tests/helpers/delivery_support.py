"""Shared by tests: the toolkit's wheel: reproducible, installed by its hash from the project and from nowhere else, replaced by updates."""

from __future__ import annotations

import sys

from support import VENV, Project, mark_ready, run, succeed


def environment(project: Project) -> None:
    """Make a .venv that borrows the packages of this repository's, also pip, and none of its toolkit."""
    succeed(run(sys.executable, "-m", "venv", "--without-pip", ".venv", cwd=project.path))
    [folder] = (project / ".venv/lib").glob("python3.*/site-packages")
    [packages] = (VENV / "lib").glob("python3.*/site-packages")
    (folder / "borrowed.pth").write_text(f"{packages}\n")
    mark_ready(project, ".venv", "packages")
