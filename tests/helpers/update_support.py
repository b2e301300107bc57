"""Shared by tests: an update: what a project owns stays as it is. The rest becomes what a fresh copy would be."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import copier
import pytest
import yaml
from support import SOURCES, Project, run, step, succeed
from wheels import pack_wheel

TENSORS = dict.fromkeys("ABCD", "FP32[4]")
ONE = step("one", ["A"], ["B"])
TWO = step("two", ["B"], ["C"], "onnxruntime")
THREE = step("three", ["C"], ["D"])

Copy = Callable[..., Project]


def answers(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    used = {tensor for step in steps for side in ("inputs", "outputs") for tensor in step[side]}
    tensors = {name: spec for name, spec in TENSORS.items() if name in used}
    return {"tensors": tensors, "steps": list(steps), **more}


@pytest.fixture
def origin(git_template: Path, tmp_path: Path) -> Path:
    """Return a template that a test may change: it has the tag v1.0.0."""
    folder = Path(shutil.copytree(git_template, tmp_path / "template", symlinks=True))
    pack_wheel(folder)
    for command in ("add --all", "commit -q --allow-empty --amend --no-edit", "tag -f v1.0.0"):
        succeed(run("git", *command.split(), cwd=folder))
    return folder


@pytest.fixture
def copy(origin: Path, tmp_path: Path) -> Copy:
    """Return what copies the newest version into a new folder, and commits it there."""

    def copy(name: str = "p", **data: Any) -> Project:
        copier.run_copy(
            str(origin), tmp_path / name, data=data, defaults=True, quiet=True, unsafe=False
        )
        project = Project(tmp_path / name)
        project.commit()
        return project

    return copy


def release(origin: Path, version: str, **changed: str) -> None:
    """Make a new version of the template and its wheel, with a line added to some of its files."""
    for name in changed.values():
        with (origin / "template" / name).open("a") as file:
            file.write(f"# {version}\n")
    pack_wheel(origin)
    for command in ("add --all", f"commit -q --allow-empty -m {version}", f"tag {version}"):
        succeed(run("git", *command.split(), cwd=origin))


def update(project: Project, **data: Any) -> None:
    copier.run_update(
        str(project.path), data=data, defaults=True, overwrite=True, quiet=True, unsafe=False
    )


def make_update(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run what `make update` runs."""
    assert "\nupdate: ; @$(RUN) $@\n" in (project / "Makefile").read_text()
    command = (sys.executable, "-m", "triton_ensemble", "update", *arguments)
    return run(*command, cwd=project.path, PYTHONPATH=f"src:{SOURCES}")


def managed(project: Project) -> dict[str, bytes]:
    """Return the files without .apply/."""
    return {
        path: content
        for path, content in project.contents().items()
        if not path.startswith(".apply/") and "__pycache__" not in path
    }


def change(project: Project, **data: Any) -> None:
    """Write other answers into pipeline.yml, as far as they are those of a pipeline, and commit them."""
    path = project / "pipeline.yml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | data))
    project.commit()
