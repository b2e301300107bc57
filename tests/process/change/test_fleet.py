"""`triton-ensemble fleet`: what it says of projects in folders and in bare repositories."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import SOURCES, run, succeed
from update_support import ONE, TWO, Copy, answers, copy, make_update, origin, release

__all__ = ["copy", "origin"]

GH = """#!/bin/sh
[ "$3" = --workflow=ci.yml ] && echo 2026-11-20T10:00:00Z
"""


def fleet(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder whose `gh` answers."""
    (folder / "gh").write_text(GH)
    (folder / "gh").chmod(0o755)
    command = (sys.executable, "-m", "triton_ensemble", "fleet", *words)
    return run(*command, cwd=folder, PYTHONPATH=str(SOURCES), PATH=f"{folder}:/usr/bin:/bin")


@pytest.fixture
def projects(origin: Path, copy: Copy, tmp_path: Path) -> Path:
    """Return the folder of two projects and of a bare repository of the first.

    `old` was made from v1.0.0, `new` from v1.2.0. The template also has v1.3.0rc1.
    """
    old = copy("old", **answers(ONE, TWO), triton_release="25.06")
    (old / "Makefile").write_text(f"# mine\n{(old / 'Makefile').read_text()}")
    old.commit()
    succeed(run("git", "clone", "-q", "--bare", "old", "remote.git", cwd=tmp_path))
    pipeline = (old / "pipeline.yml").read_text()
    (old / "pipeline.yml").write_text(pipeline.replace("size: 8", "size: 4"))
    for version in ("v1.1.0", "v1.2.0"):
        release(origin, version)
    copy("new", **answers(ONE, TWO))
    release(origin, "v1.3.0rc1")
    return tmp_path


def test_a_table_and_json_say_how_projects_stand(projects: Path) -> None:
    (projects / "list.txt").write_text(
        f"# ours\nold\n\nnew # the second\nfile://{projects}/remote.git\ngone\n"
    )
    process = fleet(projects, "list.txt")
    first, old, new, remote, fault, _ = process.stdout.splitlines()
    assert first.startswith("project ")
    assert first.endswith("  version  newest  behind  pipeline  edited  faults  green")
    day = "2026-11-20"
    assert old.split() == ["old", "v1.0.0", "v1.2.0", "2", "changed", "1", "2", day]
    assert new.split() == ["new", "v1.2.0", "v1.2.0", "0", "applied", "0", "0", day]
    url = f"file://{projects}/remote.git"
    assert remote.split() == [url, "v1.0.0", "v1.2.0", "2", "applied", "1", "2", day]
    assert fault.startswith(f"old, {url}: Triton 25.06 lets a client that reaches its ports run")
    assert (process.returncode, process.stderr.count("\n")) == (1, 1)
    assert process.stderr.startswith("gone: git: repository 'gone' does not exist")

    process = fleet(projects, "--format=json", "old", "new")
    old_row, new_row = json.loads(succeed(process))
    assert "CVE-2025-23319" in old_row.pop("faults")[0]
    expected: dict[str, Any] = {"version": "v1.0.0", "newest": "v1.2.0", "behind": 2}
    expected |= {"project": "old", "pipeline": "changed", "edited": ["Makefile"], "problem": ""}
    assert old_row == expected | {"green": day}
    assert (new_row["faults"], new_row["edited"], new_row["pipeline"]) == ([], [], "applied")


@pytest.mark.slow
def test_a_project_of_a_pre_release_is_compared_with_those(origin: Path, copy: Copy) -> None:
    project = copy(**answers(ONE, TWO))
    release(origin, "v1.1.0rc1")
    release(origin, "v1.1.0rc2")
    succeed(make_update(project, "--vcs-ref=v1.1.0rc1"))
    [row] = json.loads(succeed(fleet(origin.parent, "--format=json", "p")))
    assert (row["version"], row["newest"], row["behind"]) == ("v1.1.0rc1", "v1.1.0rc2", 1)


def test_what_can_not_be_known_is_no_end_of_it(origin: Path, copy: Copy, tmp_path: Path) -> None:
    """The template is not where it was, and the wheel is none."""
    project = copy(**answers(ONE, TWO))
    [wheel] = (project / "vendor").glob("*.whl")
    wheel.write_bytes(b"")
    origin.rename(tmp_path / "moved")
    (tmp_path / "empty").mkdir()
    process = fleet(tmp_path, "p", "empty")
    assert process.stdout.splitlines()[1].split()[1:6] == ["v1.0.0", "?", "?", "applied", "?"]
    assert process.stderr == (
        "empty: has no .copier-answers.yml; name a project that was made from the template\n"
    )
