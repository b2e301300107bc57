"""Python 3.13 and NumPy 2: what needs no local Triton, installed from its wheel and locks, before a Triton of this Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_service import gateway
from new_support import BRINGS, NAME, PYTHON, RUNS, WRITES, made
from support import ROOT, UV, Project, Server, run, serve, succeed
from terminal import ENTER, Terminal

pytestmark = pytest.mark.slow
[WHEEL] = ROOT.glob("template/vendor/*.whl")
LOCK = ROOT / "locks/requirements-unit.lock"


def find_python() -> Path:
    """Return a Python 3.13 in PATH or of pyenv. Skip the test if there is none."""
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    folders += Path.home().glob(".pyenv/versions/3.13*/bin")
    for python in (folder / "python3.13" for folder in folders if folder.name != "shims"):
        if python.exists():
            return python
    pytest.skip("Python 3.13 is not installed")


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of an environment of Python 3.13."""
    folder = tmp_path_factory.mktemp("newer")
    programs, uv = folder / "bin", UV
    succeed(run(str(find_python()), "-m", "venv", *["--without-pip"] * bool(uv), ".", cwd=folder))
    pip = [str(programs / "python"), "-m", "pip", "install", "--quiet"]
    with_uv = [uv, "pip", "install", "--python", pip[0], "--quiet", "--compile-bytecode"]
    install = [word for word in with_uv if word] if uv else pip
    succeed(run(*install, "--no-deps", "--require-hashes", f"--requirement={LOCK}", cwd=folder))
    succeed(run(*install, str(WHEEL), "tritonclient[grpc]", "urllib3", cwd=folder))
    version = "import numpy, sys; print(sys.version_info[:2], numpy.__version__)"
    assert succeed(run(pip[0], "-c", version, cwd=folder)).startswith("(3, 13) 2.")
    return programs


@pytest.fixture(scope="module")
def project(newer: Path, git_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project that `triton-ensemble new` made on Python 3.13."""
    folder = tmp_path_factory.mktemp("made")
    words = ["new", "p", "--template", str(git_template), "--data", "ci=none"]
    terminal = Terminal(words, folder, program=newer / "triton-ensemble")
    terminal.answer(NAME, "double" + ENTER)
    terminal.answer(RUNS, PYTHON)
    terminal.answer(BRINGS, "X FP32[4]" + ENTER)
    terminal.answer(WRITES, "Y FP32[4]" + ENTER)
    terminal.answer(NAME, ENTER)
    made(terminal)
    project = Project(folder / "p")
    pipeline = project / "pipeline.yml"
    pipeline.write_text(pipeline.read_text().replace('["monitoring"]', "[gateway]"))
    assert "pipeline.yml is applied" in succeed(
        run(str(newer / "triton-ensemble"), "apply", cwd=project.path)
    )
    return project


@pytest.fixture(scope="module")
def server(project: Project) -> Iterator[Server]:
    with serve(project) as server:
        yield server


def test_check_adopt_and_update(project: Project, newer: Path) -> None:
    def command(*words: str) -> str:
        return succeed(run(str(newer / "triton-ensemble"), *words, cwd=project.path))

    command("repository")
    command("check")
    assert "name: double" in command("adopt", "model_repository")
    project.commit()
    command("update")


def test_client_and_gateway_ask_a_triton_of_another_python(
    server: Server, newer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = str(newer / "python")
    for url, tests in ((server.urls["http"], "tests"), (server.urls["grpc"], "tests/test_live.py")):
        words = ("-m", "pytest", "-p", "no:cacheprovider", tests)
        tested = run(python, *words, cwd=server.project.path, TRITON_URL=url)
        assert " passed" in succeed(tested)
    monkeypatch.setattr(sys, "executable", python)
    with gateway(server.project, server.urls["grpc"]) as service:
        answer = service.post({"X": [[1, 2, 3, 4]]})
        assert answer.status == 200, answer.content
        assert list(answer.json()) == ["Y"]


def test_the_local_triton_says_which_python_it_needs(
    project: Project, newer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)  # whose plugin is not there
    done = run(str(newer / "triton-ensemble"), "infer", cwd=project.path, HTTP_PORT="1")
    assert done.stderr.splitlines() == [
        "the local Triton runs on Python 3.10 to 3.12, not 3.13; make a new environment"
    ]
