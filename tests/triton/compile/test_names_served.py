"""Names that are code in Python, in a shell and in make: a project with them works as others do, and runs none."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from docs_blocks import read_blocks
from support import Generate, Project, serve, step, succeed

PYTHON = 'x"""; __import__("os").system("touch $RAN"); """'
SUBSTITUTED, BACKTICKS, MADE = "$(touch $RAN)", "`touch $RAN`", "$(shell touch $RAN)"
QUOTED, ESCAPED = "'; touch $RAN; '", '"; touch $RAN; \\'
TENSORS = dict.fromkeys((SUBSTITUTED, BACKTICKS, MADE), "FP32[2]") | {PYTHON: "STRING[1]"}
FLOATS = {"type": "FP32", "dims": [2]}
STEPS = [
    step("read", [PYTHON], [SUBSTITUTED], calls=["called"], parameters={BACKTICKS: QUOTED}),
    step("called", {QUOTED: FLOATS}, {ESCAPED: FLOATS}, "onnxruntime"),
    step("net", {ESCAPED: SUBSTITUTED}, {QUOTED: BACKTICKS}, "onnxruntime", device="cpu"),
    step("last", [BACKTICKS], [MADE]),
]
IMPORTED = ("steps.read", "steps.last", "models.net", "models.called", "step_types", "my_pipeline")


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that each name makes as soon as it is run."""
    monkeypatch.setenv("RAN", str(tmp_path / "RAN"))
    return tmp_path / "RAN"


def in_shell(project: Project, command: str) -> str:
    """Run a command as a reader of README.md pastes it, with `make` in this repository's environment."""
    make = f'make() {{ command {shlex.join(project.make_command())} "$@"; }}'
    return succeed(project.run("bash", "-c", f"set -eo pipefail; {make}\n{command}"))


def test_names_that_are_code_run_nowhere(generate: Generate, ran: Path) -> None:
    project = generate.complete(tensors=TENSORS, steps=STEPS, extras=["gateway"])
    succeed(project.run(sys.executable, "-c", f"import {', '.join(IMPORTED)}"))
    assert MADE in succeed(project.make("infer"))
    (project / "FILE").write_text("a text")
    agents, readme = ((project / name).read_text() for name in ("AGENTS.md", "README.md"))
    assert not ran.exists()
    [sample] = re.findall("record requests: `(.*)`.$", agents, re.MULTILINE)
    assert sample.removeprefix("make sample ") in readme
    asked = project.make("sample").stderr.partition("Write: ")[2].splitlines()[0]
    for command in (sample, asked.replace("NAME=one", "NAME=two")):
        in_shell(project, command)
    for path in project.path.glob("samples/*.json"):
        assert [*json.loads(path.read_text())["inputs"]] == [PYTHON]
    with serve(project) as server:
        curl = read_blocks(readme, "sh")[1].replace("http://127.0.0.1:8000", server.urls["http"])
        assert json.dumps(MADE)[1:-1] in in_shell(project, curl)
    assert not ran.exists()
