"""What an update leaves that was killed is undone by the next one, before anything else."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import copier
import pytest
from apply_support import KILLED
from safe_update_support import CONFLICT, NEW, Origin, commit, edit, update
from support import Project, run, succeed
from update_support import managed

from triton_ensemble.change.stage import PREFIX

UNDONE = "update: one that was killed is undone; 6 files are as they were before it\n"
ALL = 6  # moves of files, so that the next one ends the update


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a conflict in the newest version of its template."""
    origin = Origin(tmp_path / "template")
    copier.run_copy(str(origin.folder), tmp_path / "p", defaults=True, quiet=True)
    commit(tmp_path / "p")
    project = Project(tmp_path / "p")
    edit(project, "tools/one.py")
    origin.release("v1.1.0", **NEW | CONFLICT)
    return project


def kill(project: Project, at: int) -> None:
    """Kill an update at a move of a file; nothing shows git that it was there but the files that it moved."""
    process = project.run(sys.executable, "-c", KILLED, str(at), "update")
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert len(list(project.path.glob(f"{PREFIX}*"))) == 1
    assert PREFIX not in project.changes()


def undo(project: Project) -> subprocess.CompletedProcess[str]:
    return project.run(sys.executable, "-m", "triton_ensemble.change.stage")


@pytest.mark.parametrize(
    "at", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1, 3, ALL))]
)
def test_files_that_were_moved_go_back(project: Project, at: int) -> None:
    before = managed(project)
    kill(project, at)
    process = undo(project)
    succeed(process)
    assert process.stderr == UNDONE
    assert managed(project) == before
    assert not (project / "tools/four").exists()
    assert project.changes() == ""


@pytest.mark.slow
def test_one_that_had_moved_nothing_says_so(project: Project) -> None:
    kill_first = "from triton_ensemble.change.stage import Stage; Stage.begin = lambda *_: os.kill(os.getpid(), 9); main(sys"
    code = KILLED.replace("main(sys", kill_first)
    assert project.run(sys.executable, "-c", code, "1", "update").returncode == -signal.SIGKILL
    assert undo(project).stderr == "update: one that was killed had changed no file\n"
    assert not list(project.path.glob(f"{PREFIX}*"))


@pytest.mark.slow
def test_the_next_update_goes_on(project: Project) -> None:
    kill(project, 3)
    process = update(project)
    assert process.stderr == UNDONE
    assert "tools/one.py: you and the template changed the same lines" in process.stdout
    assert not list(project.path.glob(f"{PREFIX}*"))


@pytest.mark.slow
def test_where_files_have_one_name_each(project: Project) -> None:
    """On a file system without hard links, a file is away for a moment, and comes back."""
    before = managed(project)
    code = f"import os; os.link = lambda *_, **__: open('/')\n{KILLED}"
    assert project.run(sys.executable, "-c", code, "1", "update").returncode == -signal.SIGKILL
    assert managed(project).keys() & before.keys() != before.keys()
    succeed(undo(project))
    assert managed(project) == before


@pytest.mark.slow
def test_what_was_changed_since_is_left_alone(project: Project) -> None:
    kill(project, ALL)
    (project / ".copier-answers.yml").write_text("mine\n")
    process = update(project)
    assert process.returncode
    [line] = process.stderr.splitlines()
    assert line.startswith(
        ".copier-answers.yml: was changed since a `make update` that was killed; `git r"
    )
    assert (project / ".copier-answers.yml").read_text() == "mine\n"
    succeed(
        run("git", "restore", "--source=HEAD", "--staged", ".copier-answers.yml", cwd=project.path)
    )
    succeed(run("git", "restore", ".copier-answers.yml", cwd=project.path))
    succeed(undo(project))
    assert project.changes() == ""


@pytest.mark.slow
def test_the_way_back_is_one_too(project: Project) -> None:
    before = managed(project)
    kill(project, ALL)
    succeed(run("git", "restore", "--source=HEAD", "--staged", "--worktree", ".", cwd=project.path))
    succeed(run("git", "clean", "-fd", ".", cwd=project.path))
    succeed(undo(project))
    assert managed(project) == before


@pytest.mark.slow
def test_what_was_dropped_outside_a_sparse_checkout_is_back(project: Project) -> None:
    succeed(run("git", "sparse-checkout", "set", "--cone", "samples", cwd=project.path))
    kill(project, ALL - 1)
    assert "D  tools/three.sh" in project.changes()
    succeed(undo(project))
    assert project.changes() == ""


@pytest.mark.slow
def test_one_that_runs_is_not_undone(project: Project) -> None:
    """Its journal is locked."""
    code = KILLED.replace("signal.SIGKILL", "signal.SIGSTOP")
    process = subprocess.Popen([sys.executable, "-c", code, "1", "update"], cwd=project.path)
    while not (tuple(project.path.glob(f"{PREFIX}*/old-*"))):
        assert process.poll() is None
    second = update(project)
    process.kill()
    process.wait()
    assert second.returncode
    assert second.stderr == "another command changes this project; wait for its end\n"
