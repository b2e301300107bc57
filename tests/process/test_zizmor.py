"""Run zizmor, which looks for security problems in workflows. `make lint` runs it on those of this repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import VENV, Generate, run, succeed
from team_support import write_team
from update_support import Copy, copy, origin

__all__ = ["copy", "origin"]


def audit(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run zizmor on the workflows of a folder, as a project's owner would."""
    return run(str(VENV / "bin/zizmor"), "--quiet", "--offline", ".github", cwd=folder)


@pytest.mark.parametrize("gpu_count", [0, 2])
def test_zizmor_finds_nothing_in_a_generated_project(generate: Generate, gpu_count: int) -> None:
    extras = ["monitoring", "gateway", "kubernetes", "kserve", "ray"]
    project = generate(ci="github", gpu_count=gpu_count, extras=extras)
    succeed(audit(project.path))


def test_zizmor_finds_nothing_where_a_team_shares_the_update(origin: Path, copy: Copy) -> None:
    write_team(origin)
    project = copy(ci="github")
    assert "uses: example/template/" in (project / ".github/workflows/update.yml").read_text()
    succeed(audit(project.path))


def test_zizmor_finds_an_injection(tmp_path: Path) -> None:
    workflow = tmp_path / ".github/workflows/ci.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text(
        "on: issues\npermissions: {}\njobs:\n  a:\n    runs-on: ubuntu-24.04\n"
        "    steps: [{ run: 'echo ${{ github.event.issue.title }}' }]\n"
    )
    process = audit(tmp_path)
    assert process.returncode
    assert "template-injection" in process.stdout
