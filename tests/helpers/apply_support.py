"""Shared by tests: `apply` in this process, and what it must leave alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import SOURCES, Generate, Project, call, mounted, variables
from update_support import ONE, TWO, answers, managed

from triton_ensemble.change.owned import FOLLOWS

COMMAND = (sys.executable, "-m", "triton_ensemble", "apply")
START: dict[str, Any] = {
    **answers(ONE, TWO),
    "project_name": "p",
    "ensemble_name": "p",
    "extras": ["gateway"],
}
CONFIG = "model_repository/one/config.pbtxt"


def break_off(
    at: int, by: int = signal.SIGKILL, file: str = "", sources: Path = SOURCES
) -> dict[str, str]:
    """Return variables with which a command breaks off at a move of a file, or at a file of this name."""
    path = f"src:{sources}:{Path(__file__).with_name('breaks')}"
    return variables(PYTHONPATH=path, BREAK_AT=str(at), BREAK_BY=str(int(by)), BREAK_FILE=file)


def run_broken(
    project: Project, *words: str, at: int, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command of the toolkit that breaks off, as `break_off` says."""
    command = (sys.executable, "-m", "triton_ensemble", *words)
    environment = break_off(at, **more)
    return subprocess.run(
        command, cwd=project.path, env=environment, capture_output=True, text=True
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    with mounted(folder, "-t", "tmpfs", "-o", "size=8m", "tmpfs"):
        yield folder


def apply(project: Project, *options: str) -> str:
    """Apply pipeline.yml, which must succeed or leave a conflict. Return what is printed."""
    said = call(project, "apply", *options)
    assert said.status == ("merge .apply/conflicts/" in said.out), said
    assert said.err == "", said
    return said.out


def read(project: Project) -> dict[str, Any]:
    """Return the answers of pipeline.yml."""
    found: dict[str, Any] = yaml.safe_load((project / "pipeline.yml").read_text())
    return found


def answer(project: Project, **data: Any) -> None:
    """Write other answers into pipeline.yml. It is not committed."""
    text = yaml.safe_dump(read(project) | data, sort_keys=False)
    (project / "pipeline.yml").write_text(text)


def edit(project: Project, path: str, line: str = "# mine", at: int = 1) -> None:
    """Add a line of the owner to a managed file, after so many lines."""
    lines = (project / path).read_text().splitlines(keepends=True)
    (project / path).write_text("".join([*lines[:at], f"{line}\n", *lines[at:]]))


def state(project: Project) -> dict[str, tuple[int, bytes]]:
    """Return files and modes, with those of .apply/, and git's index."""
    paths = [project / path for path in project.files() if "__pycache__" not in path]
    paths += [index] if (index := project / ".git/index").exists() else []
    return {str(path): (path.stat().st_mode, path.read_bytes()) for path in paths}


def as_made(generate: Generate, **data: Any) -> dict[str, bytes]:
    """Return the files of a project that is made from other answers, but for its owner's pipeline.yml."""
    return without_text(managed(generate(**START | data)))


def without_text(contents: dict[str, bytes]) -> dict[str, bytes]:
    """Return files without the text of pipeline.yml, and with their answers as YAML reads them."""
    left = {path: content for path, content in contents.items() if path != "pipeline.yml"}
    made = yaml.safe_load(left.pop(".copier-answers.yml"))
    return left | {".copier-answers.yml": yaml.safe_dump(made).encode()}


def owned(project: Project) -> dict[str, bytes]:
    """Return the files that `apply` never changes: those of the owner, but for pipeline.yml, stubs and generated tests."""
    paths = yaml.safe_load((project / ".copier-answers.yml").read_bytes())["owned"]
    folders = tuple(path for path in paths if path.endswith("/"))
    return {
        path: content
        for path, content in managed(project).items()
        if path != "pipeline.yml" and (path in paths or path.startswith(folders))
        if FOLLOWS not in content
    }
