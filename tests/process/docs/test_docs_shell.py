"""The commands in the documentation that need no server: Sybil runs them, in a generated project."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from docs_blocks import PAGES, find_failures, read_blocks
from follower import Follower
from hand_made import PYTHON, HandMade, code, ensemble, onnx_model, step
from support import ROOT, Project, succeed
from sybil import Example
from sybil.typing import Evaluator

WITH_COMMANDS = [page for page in PAGES if read_blocks(page.read_text(), "sh", "console")]


@pytest.fixture(scope="module")
def project(default_project: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project under git that has a picture, and a model repository named REPOSITORY."""
    project = Project(tmp_path_factory.mktemp("docs") / "myproj")
    shutil.copytree(default_project.path, project.path)
    (project / "photos").mkdir()
    shutil.copy(project / "samples/digit-7.jpg", project / "photos/cat.jpg")
    files = {"e/config.pbtxt": ensemble(step("m")), "e/1/README.md": "The ensemble has no file.\n"}
    files |= {"m/config.pbtxt": PYTHON, "m/1/model.py": code("x")}
    HandMade({**files}).write(project / "REPOSITORY")
    # Another test may have made the default project's models.
    (project / "model_repository/classify/1").mkdir(exist_ok=True)
    (project / "model_repository/classify/1/model.onnx").write_bytes(onnx_model(1))  # quickly made
    project.commit()
    return project


@pytest.fixture
def follower(project: Project, git_template: Path) -> Follower:
    """Return a follower in the folder of the project, as it was committed."""
    for command in ("restore .", "clean -fdq"):
        succeed(project.run("git", *command.split()))
    return Follower(project.path, git_template)


def run_commands(block: Example) -> str:
    """Run each line, in a session only what follows `$`. Its other lines must be printed."""
    printed, is_session = "", block.parsed.startswith("$ ")
    for line in block.parsed.replace("\\\n", "").splitlines():
        if not is_session or line.startswith("$ "):
            printed = block.namespace["follower"].do(line.removeprefix("$ "))
        elif line not in printed.splitlines():
            return f"is not printed: {line}"
    return ""


EVALUATORS: defaultdict[str, Evaluator] = defaultdict(lambda: lambda _: None)
EVALUATORS |= {"sh": run_commands, "console": run_commands}


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_runs_or_has_a_reason(page: Path, follower: Follower) -> None:
    assert [*find_failures(page, EVALUATORS, follower=follower)] == []


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("```sh\ntrue\nfalse\n```\n", "page.md:1: AssertionError: "),
        ("\n```console\n$ echo one\none\n$ echo two\nthree\n```\n", "page.md:2: is not printed: three"),
    ],
)  # fmt: skip
def test_a_failing_command_is_found(
    text: str, failure: str, follower: Follower, tmp_path: Path
) -> None:
    (tmp_path / "page.md").write_text(text)
    [found] = find_failures(tmp_path / "page.md", EVALUATORS, follower=follower)
    assert failure in found
