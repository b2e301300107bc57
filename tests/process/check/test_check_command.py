"""`triton-ensemble check`: what it prints, its exit status, and what it can't read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from check_command_support import GARBAGE
from check_support import PYTHON, write
from support import SOURCES, Generate, run

PROGRAM = ("-m", "triton_ensemble", "check")


def test_it_runs_as_a_program_on_any_repository(tmp_path: Path) -> None:
    write(tmp_path / "r", {"m": PYTHON, "docs": None})
    done = run(sys.executable, *PROGRAM, "r", cwd=tmp_path, PYTHONPATH=str(SOURCES))
    assert done.returncode == 1, done.stderr
    line = "r/docs/config.pbtxt:1: error: config-missing: Invalid model name: "
    assert done.stdout.startswith(line)


def test_a_python_without_the_packages_is_one_line(tmp_path: Path) -> None:
    """`-S` leaves nothing but the standard library."""
    done = run(sys.executable, "-S", *PROGRAM, str(tmp_path), cwd=tmp_path, PYTHONPATH=str(SOURCES))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"{sys.executable}: No module named ")
    assert "use .venv/bin/triton-ensemble" in done.stderr


@pytest.mark.parametrize(
    "name", ["pipeline.yml", "requirements.lock", "deploy/Dockerfile", "deploy/serve.sh"]
)
def test_garbage_around_the_repository(generate: Generate, name: str) -> None:
    project = generate()
    path = project / name
    path.write_bytes(GARBAGE["binary"])
    assert "Traceback" not in project.run(sys.executable, *PROGRAM).stderr
    path.unlink()
    path.mkdir()
    assert "Traceback" not in project.run(sys.executable, *PROGRAM).stderr
