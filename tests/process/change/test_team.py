"""A fork with a team: two projects, a new version of the template pulled into the fork, and both projects updated."""

from __future__ import annotations

from pathlib import Path

import copier
import pytest
from support import Project, run, succeed
from team_support import TEAM_YML, lacking, release, write_team
from update_support import make_update, origin

__all__ = ["origin"]

# What the template's new version changes, in files that the team's words are in.
CHANGED = {
    "hooks/graph/container.jinja": ("':v3.5.0'", "':v3.6.0'"),
    "template/.github/workflows/ci.yml.jinja": ("timeout-minutes: 30", "timeout-minutes: 31"),
    "template/.gitlab-ci.yml.jinja": ("timeout: 30 minutes", "timeout: 31 minutes"),
    "template/deploy/kubernetes/base/deployment.yaml.jinja": ("replicas: 2", "replicas: 3"),
    "template/deploy/Dockerfile.jinja": ("EXPOSE 8000", "EXPOSE 8009"),
}
IN_PROJECTS = {
    "github": {".github/workflows/ci.yml": "timeout-minutes: 31"},
    "gitlab": {".gitlab-ci.yml": "timeout: 31 minutes"},
}


@pytest.mark.slow
def test_a_fork_pulls_and_its_projects_update_without_a_conflict(
    origin: Path, tmp_path: Path
) -> None:
    fork = tmp_path / "fork"
    succeed(run("git", "clone", "-q", str(origin), str(fork), cwd=tmp_path))
    write_team(fork)
    projects = [made(fork, tmp_path / ci, ci=ci) for ci in IN_PROJECTS]

    for name, (old, new) in CHANGED.items():
        path = origin / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
    release(origin, "v1.1.0")
    (fork / "team/team.yml").write_text(TEAM_YML.replace("16Gi", "32Gi"))
    release(fork, "v1.0.2")
    succeed(run("git", "pull", "-q", "--no-rebase", "--no-edit", str(origin), "HEAD", cwd=fork))
    release(fork, "v1.2.0")

    for project, ci in zip(projects, IN_PROJECTS, strict=True):
        succeed(make_update(project))
        deployment = (project / "deploy/kubernetes/base/deployment.yaml").read_text()
        assert 'requests: { cpu: "2", memory: 32Gi' in deployment
        assert "replicas: 3" in deployment
        assert "EXPOSE 8009" in (project / "deploy/Dockerfile").read_text()
        for name, text in IN_PROJECTS[ci].items():
            assert text in (project / name).read_text()
        assert "memory: 32Gi" in (project / "vendor/team/team.yml").read_text()
    assert lacking(projects[0].path) == ["deploy/kubernetes/base/deployment.yaml"]  # it has 32Gi


def made(fork: Path, folder: Path, **answers: str) -> Project:
    """Return a project of the fork's newest version, committed."""
    copier.run_copy(str(fork), folder, data=answers, defaults=True, quiet=True)
    project = Project(folder)
    project.commit()
    assert not project.changes()
    return project
