"""Updates from each released version and from the commit before, and with the oldest and the newest Copier."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import copier
import pytest
from support import ROOT, Project, run, step, succeed

OLDEST = re.search(r'_min_copier_version: "(.*)"', (ROOT / "copier.yml").read_text())
ANSWERS: dict[str, dict[str, Any]] = {
    "default": {},
    "two steps": {
        "tensors": dict.fromkeys("ABC", "FP32[4]"),
        "steps": [step("one", ["A"], ["B"]), step("two", ["B"], ["C"], "onnxruntime")],
    },
}


def released() -> list[str]:
    """Return the tags and the commit before, as far as this clone has them."""
    before = run("git", "rev-parse", "--verify", "HEAD~1", cwd=ROOT)
    return [*run("git", "tag", cwd=ROOT).stdout.split(), *before.stdout.split()]


@pytest.fixture(scope="module")
def origin(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return this repository with all its versions, and the working tree as the newest."""
    folder = tmp_path_factory.mktemp("origin") / "template"
    succeed(run("git", "clone", "-q", str(ROOT), str(folder), cwd=ROOT))
    succeed(run("git", "rm", "-rq", ".", cwd=folder))
    shutil.copytree(template, folder, symlinks=True, dirs_exist_ok=True)
    for command in ("add --all", "commit -q --allow-empty -m newest", "tag v1000.0.0"):
        succeed(run("git", *command.split(), cwd=folder))
    return folder


def copied(origin: Path, folder: Path, answers: dict[str, Any], version: str) -> Project:
    copier.run_copy(
        str(origin), folder, data=answers, defaults=True, quiet=True, vcs_ref=version, unsafe=False
    )
    project = Project(folder)
    project.commit()
    return project


def updated(project: Project) -> dict[str, bytes]:
    copier.run_update(
        str(project.path),
        defaults=True,
        overwrite=True,
        quiet=True,
        vcs_ref="v1000.0.0",
        unsafe=False,
    )
    return project.contents()


@pytest.mark.slow
@pytest.mark.parametrize("answers", ANSWERS.values(), ids=ANSWERS.keys())
@pytest.mark.parametrize("version", released())
def test_an_untouched_project_becomes_a_fresh_one(
    origin: Path, tmp_path: Path, version: str, answers: dict[str, Any]
) -> None:
    """It does but for what it owns, which stays as it was written."""
    fresh = copied(origin, tmp_path / "fresh", answers, "v1000.0.0").contents()
    project = copied(origin, tmp_path / "p", answers, version)
    old = project.contents()
    yours = {name for name, text in old.items() if b"Yours: " in b"".join(text.splitlines()[:2])}
    after = updated(project)
    assert {name: after.get(name) for name in yours} == {name: old[name] for name in yours}
    kept = {*yours, "requirements.lock", "requirements-dev.lock"} | {
        name for name in old if name.startswith("samples/")
    }
    assert after.keys() - kept == fresh.keys() - kept
    assert [name for name in fresh.keys() - kept if after[name] != fresh[name]] == []


@pytest.mark.slow
@pytest.mark.parametrize("version", released())
def test_an_edited_project_keeps_each_line(origin: Path, tmp_path: Path, version: str) -> None:
    project = copied(origin, tmp_path / "p", {}, version)
    ours = (".copier", "samples/", "vendor/triton_ensemble-")  # the wheel has no lines
    edited = [name for name in project.files() if not name.startswith(ours)]
    for name in edited:
        with (project / name).open("a") as file:
            file.write(f"# mine: {name}\n")
    project.commit()
    after = updated(project)
    assert [n for n in edited if n in after and f"# mine: {n}\n".encode() not in after[n]] == []


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment without packages."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    succeed(run(sys.executable, "-m", "venv", "--without-pip", str(folder), cwd=folder.parent))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "version", [f"=={OLDEST[1] if OLDEST else ''}", ""], ids=["oldest", "newest"]
)
def test_copy_and_update_with_copier(
    origin: Path, venv: Path, tmp_path: Path, version: str
) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(venv))
    succeed(run(*pip, "install", "--quiet", "--upgrade", f"copier{version}", cwd=tmp_path))
    command = str(venv / "bin/copier")
    installed = succeed(run(command, "--version", cwd=venv)).split()[-1]
    if not version and OLDEST and installed == OLDEST[1]:
        pytest.skip("the newest Copier is the oldest that copier.yml allows: the other case")
    succeed(run(command, "copy", "--defaults", "--quiet", str(origin), "p", cwd=tmp_path))
    project = Project(tmp_path / "p")
    project.commit()
    settings = (project / "pipeline.yml").read_text()
    (project / "pipeline.yml").write_text(
        settings.replace("max_batch_size: 8", "max_batch_size: 4")
    )
    project.commit()
    succeed(project.run(command, "update", "--defaults", "--data-file", "pipeline.yml"))
    assert "max_batch_size: 4" in (project / "model_repository/label/config.pbtxt").read_text()
