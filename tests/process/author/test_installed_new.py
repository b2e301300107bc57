"""`triton-ensemble new` as users run it: built from the template's git repository, in an environment of its own."""

from __future__ import annotations

import site
import sys
from pathlib import Path

import pytest
from support import NOWHERE, Project, run, succeed
from terminal import ENTER, Terminal


@pytest.mark.slow
def test_new_makes_a_project_where_the_package_is_installed(
    git_template: Path, tmp_path: Path
) -> None:
    python = tmp_path / "environment/bin/python"
    succeed(run(sys.executable, "-m", "venv", "--without-pip", "environment", cwd=tmp_path))
    [packages] = tmp_path.glob("environment/lib/python*/site-packages")
    # What the package requires is there already; of the package itself, only the new one.
    (packages / "requirements.pth").write_text(site.getsitepackages()[0])
    source = f"git+file://{git_template}"
    install = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--ignore-installed"]
    succeed(run(str(python), "-m", "pip", *install, source, cwd=tmp_path))
    command = python.with_name("triton-ensemble")
    terminal = Terminal(["new", "p", "--data", "ci=none"], tmp_path, program=command)
    terminal.answer("its name?", "double" + ENTER)
    terminal.answer("What runs it?")
    terminal.answer("read of a request?", "X FP32[4]" + ENTER)
    terminal.answer("What does it write?", "Y FP32[4]" + ENTER)
    terminal.answer("its name?")
    terminal.answer("Is this the pipeline?")
    for question in ("project's name", "batching", "How many GPUs", "What else"):
        terminal.answer(question)
    terminal.ends("p")
    project = Project(tmp_path / "p")
    assert source in (project / ".copier-answers.yml").read_text()
    assert "Y" in succeed(project.make("infer", HTTP_PORT=NOWHERE))
