"""A project of v1.0.0 becomes one of this version by `make update`."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tarfile
from pathlib import Path

import copier
import pytest
from delivery_support import environment
from support import ROOT, Project, run, succeed

KEPT = ROOT / "tests" / "releases" / "v1.0.0.tar.xz"  # docs/releasing.md says what is in it


@pytest.fixture(scope="module")
def origin(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the template with two tags: v1.0.0 as it was, and v1.1.0 as it is."""
    folder = tmp_path_factory.mktemp("origin") / "template"
    with tarfile.open(KEPT) as archive:
        archive.extractall(folder, filter="data")
    succeed(run("git", "init", "-q", cwd=folder))
    commit(folder, "v1.0.0")
    for path in folder.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(template, folder, symlinks=True, dirs_exist_ok=True)
    commit(folder, "v1.1.0")
    return folder


def commit(folder: Path, tag: str) -> None:
    for command in ("add --all", f"commit -q -m {tag}", f"tag {tag}"):
        succeed(run("git", *command.split(), cwd=folder))


@pytest.fixture
def project(origin: Path, tmp_path: Path) -> Project:
    """Return the default project of v1.0.0, committed."""
    copier.run_copy(str(origin), tmp_path / "p", vcs_ref="v1.0.0", defaults=True, quiet=True)
    project = Project(tmp_path / "p")
    project.commit()
    return project


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the first update makes the environment of updates, as a user's does."""
    return tmp_path_factory.mktemp("environment") / "venv"


def make_update(project: Project, venv: Path) -> subprocess.CompletedProcess[str]:
    """Run `make update` of the version that the project has."""
    sharing = str(ROOT / "tests/helpers/sharing")
    return run("make", "update", f"VENV={venv}", cwd=project.path, PYTHONPATH=sharing)


@pytest.mark.slow
def test_an_untouched_project_updates_without_a_conflict_and_passes_its_tests(
    project: Project, origin: Path, venv: Path, tmp_path: Path
) -> None:
    succeed(make_update(project, venv))
    copier.run_copy(str(origin), tmp_path / "fresh", vcs_ref="v1.1.0", defaults=True, quiet=True)
    fresh = Project(tmp_path / "fresh")
    assert set(fresh.files()) - set(project.files()) == set()
    environment(project)
    succeed(run("make", "setup", cwd=project.path))
    succeed(project.make("test"))


@pytest.mark.slow
def test_edits_are_kept_or_named(project: Project, venv: Path) -> None:
    """Lines of its owner are in the files, beside them in .before-update/, or in a conflict that is named."""
    random_edits = random.Random(int(os.environ.get("SEED", 0)))
    files = succeed(run("git", "ls-files", cwd=project.path)).splitlines()
    names = [name for name in files if not name.endswith((".json", ".whl", ".yml"))]
    edited = random_edits.sample(names, 40)
    for number, name in enumerate(edited):
        lines = (project / name).read_bytes().splitlines(keepends=True)
        lines.insert(random_edits.randint(0, len(lines)), b"# mine: %d\n" % number)
        (project / name).write_bytes(b"".join(lines))
    project.commit()
    process = make_update(project, venv)
    assert "_commit: v1.1.0" in (project / ".copier-answers.yml").read_text(), process.stderr
    kept = b"".join(path.read_bytes() for path in project.path.rglob("*") if path.is_file())
    lost = [name for number, name in enumerate(edited) if b"# mine: %d\n" % number not in kept]
    assert lost == [], process.stdout + process.stderr
