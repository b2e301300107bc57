"""Repositories made by hand, adopted: a clone of the project answers what the repository answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from hand_made import REPOSITORIES, HandMade, answer
from support import Generate, Project, run, serve, slow_but, succeed
from tritonclient import http  # type: ignore[import-untyped]

from triton_ensemble.cli import main
from triton_ensemble.server.local_triton import LocalTriton


@contextmanager
def client_of(url: str) -> Iterator[Any]:
    client = http.InferenceServerClient(url.partition("://")[2])
    try:
        yield client
    finally:
        client.close()


def answers_of(url: str, made: HandMade) -> list[list[Any]]:
    with client_of(url) as client:
        return [answer(client, ask).tolist() for ask in made.asks]


def cloned(project: Project, folder: Path) -> Project:
    succeed(run("git", "clone", "-q", str(project.path), str(folder), cwd=folder.parent))
    return Project(folder)


@pytest.fixture
def adopted(generate: Generate, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what adopts a repository: the project, committed, and what the command said."""

    def adopt(repository: Path) -> tuple[Project, list[str]]:
        assert main(["adopt", str(repository)]) == 0
        project = generate(**yaml.safe_load(capsys.readouterr().out))
        assert main(["adopt", str(repository), "--into", str(project.path)]) == 0
        said = capsys.readouterr().err.splitlines()
        project.commit()
        return project, said

    return adopt


QUICK = ("several versions", "version 3 alone", "BLS", "labels")


@pytest.mark.parametrize("name", slow_but(*QUICK, names=REPOSITORIES))
def test_the_clone_of_an_adopted_project_answers_as_the_repository_did(
    name: str, adopted: Any, tmp_path: Path
) -> None:
    made = REPOSITORIES[name]
    repository = made.write(tmp_path / "models")
    with LocalTriton(repository, "e") as triton:
        before = answers_of(triton.http_url, made)
    if made.from_git:
        Project(repository).commit()
        repository = cloned(Project(repository), tmp_path / "checkout").path
    project, _ = adopted(repository)
    clone = cloned(project, tmp_path / "clone")
    with serve(clone) as server:
        after = answers_of(server.urls["http"], made)
    assert after == before
    assert clone.changes() == ""
