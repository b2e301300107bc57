"""Shared by tests: the toolkit's wheel: reproducible, installed by its hash from the project and from nowhere else, replaced by updates."""

from __future__ import annotations

import sys
from pathlib import Path

from support import VENV, Project, mark_ready, run, succeed


def borrow(venv: str | Path) -> None:
    """Make an environment that borrows the packages of this repository's, also pip, and none of its toolkit."""
    command = (sys.executable, "-m", "venv", "--without-pip", str(venv))
    succeed(run(*command, cwd=Path(venv).parent))
    [folder] = Path(venv).glob("lib/python3.*/site-packages")
    [packages] = VENV.glob("lib/python3.*/site-packages")
    (folder / "borrowed.pth").write_text(f"{packages}\n")


def environment(project: Project) -> None:
    """Make a .venv that borrows the packages of this repository's, also pip, and none of its toolkit."""
    borrow(project / ".venv")
    mark_ready(project, ".venv", "packages")
