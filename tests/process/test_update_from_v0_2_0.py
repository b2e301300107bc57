"""A project of v0.2.0, whose tools were files of its own, becomes one of this version by `make update`."""

from __future__ import annotations

import os
import random
import re
import shutil
import tarfile
from pathlib import Path

import copier
import pytest
from delivery_support import environment
from support import ROOT, VENV, Project, run, succeed

KEPT = ROOT / "tests" / "releases" / "v0.2.0.tar.xz"  # its copier.yml, hooks, template and examples


@pytest.fixture(scope="module")
def origin(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the template with two tags: v0.2.0 as it was, and v1.0.0 as it is."""
    folder = tmp_path_factory.mktemp("origin") / "template"
    with tarfile.open(KEPT) as archive:
        archive.extractall(folder, filter="data")
    succeed(run("git", "init", "-q", cwd=folder))
    commit(folder, "v0.2.0")
    for path in folder.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(template, folder, symlinks=True, dirs_exist_ok=True)
    commit(folder, "v1.0.0")
    return folder


def commit(folder: Path, tag: str) -> None:
    for command in ("add --all", f"commit -q -m {tag}", f"tag {tag}"):
        succeed(run("git", *command.split(), cwd=folder))


@pytest.fixture
def project(origin: Path, tmp_path: Path) -> Project:
    """Return the default project of v0.2.0, committed, with an environment for its updates."""
    copier.run_copy(str(origin), tmp_path / "p", vcs_ref="v0.2.0", defaults=True, quiet=True)
    project = Project(tmp_path / "p")
    project.commit()
    (project / ".venv-update").symlink_to(VENV)
    (project / ".git/info/exclude").write_text(".venv-update\n")
    return project


@pytest.mark.slow
def test_an_untouched_project_updates_without_a_conflict_and_passes_its_tests(
    project: Project, origin: Path, tmp_path: Path
) -> None:
    succeed(run("make", "update", cwd=project.path))
    copier.run_copy(str(origin), tmp_path / "fresh", vcs_ref="v1.0.0", defaults=True, quiet=True)
    fresh = Project(tmp_path / "fresh")
    environment(project)
    assert "with your edits" not in succeed(run("make", "setup", cwd=project.path))
    project.commit()
    assert {name for name in fresh.files() if not (project / name).exists()} == set()
    assert not (project / "tools").exists()
    succeed(project.make("test"))


@pytest.mark.slow
@pytest.mark.parametrize("committed", [False, True], ids=["before a commit", "after a commit"])
def test_the_first_set_up_tells_what_became_of_edited_tools(
    project: Project, committed: bool
) -> None:
    for name in ("tools/bench.py", "tools/golden.py", "src/triton_arrays.py", "deploy/health.sh"):
        with (project / name).open("a") as file:
            file.write("# mine\n")
    project.commit()
    succeed(run("make", "update", cwd=project.path))
    if committed:
        project.commit()
    environment(project)
    lines = succeed(run("make", "setup", cwd=project.path)).splitlines()
    edited = {line.split(":")[0]: line for line in lines if "with your edits" in line}
    assert edited.keys() == {
        "tools/bench.py",
        "tools/golden.py",
        "src/triton_arrays.py",
        "deploy/health.sh",
    }
    assert edited["tools/bench.py"] == (
        "tools/bench.py: is gone, with your edits; triton_ensemble.bench does its work now; "
        f"yours: git show {'HEAD^' if committed else 'HEAD'}:tools/bench.py"
    )


@pytest.mark.slow
def test_the_first_hop_names_each_file_whose_lines_it_drops(project: Project) -> None:
    """The updater of v0.2.0 brings this version: its lines of merged files are there, the others' files are named."""
    random_edits = random.Random(int(os.environ.get("SEED", 0)))
    # A conflict in the Makefile, which that updater leaves, is one to solve before `make` does anything.
    left_alone = (".copier-answers.yml", "pipeline.yml", "Makefile")
    names = [name for name in project.files() if name not in left_alone]
    edited = random_edits.sample(names, 40)
    for number, name in enumerate(edited):
        lines = (project / name).read_bytes().splitlines(keepends=True)
        lines.insert(random_edits.randint(0, len(lines)), b"# mine: %d\n" % number)
        (project / name).write_bytes(b"".join(lines))
    project.commit()
    processes = [run("make", "update", cwd=project.path)]
    environment(project)
    processes.append(run("make", "setup", cwd=project.path))
    said = "".join(process.stdout + process.stderr for process in processes)
    everything = b"".join(project.contents().values())
    kept = {int(number) for number in re.findall(rb"# mine: (\d+)$", everything, re.MULTILINE)}
    dropped = [name for number, name in enumerate(edited) if number not in kept]
    print(f"{len(edited)} edits: {len(kept)} kept, {len(dropped)} dropped")
    unsaid = [name for name in dropped if f"{name}: is gone, with your edits" not in said]
    assert unsaid == [], said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["text-classification", "face-attributes", "ad-ranking"])
def test_what_started_as_a_preset_of_stubs_stays_one(
    origin: Path, tmp_path: Path, name: str
) -> None:
    """Two presets have other names now, and all three have code, which is for other tensors."""
    given = {"starting_pipeline": name}
    copier.run_copy(
        str(origin), tmp_path / "p", vcs_ref="v0.2.0", data=given, defaults=True, quiet=True
    )
    project = Project(tmp_path / "p")
    project.commit()
    (project / ".venv-update").symlink_to(VENV)
    (project / ".git/info/exclude").write_text(".venv-update\n")
    folders = ("models", "samples", "steps")
    before = {path: data for path, data in project.contents().items() if path.startswith(folders)}
    succeed(run("make", "update", cwd=project.path))
    after = {path: data for path, data in project.contents().items() if path.startswith(folders)}
    assert after.pop("samples/stub.json")  # which a project without a sample has since
    assert after == before
    assert f"starting_pipeline: {name}\n" in (project / "pipeline.yml").read_text()
