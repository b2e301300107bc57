"""Signals that come while Python exits."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_command_that_is_done_does_not_count_as_killed(name: str) -> None:
    late = f"import atexit, signal; atexit.register(signal.raise_signal, signal.{name})"
    code = f"{late}; from triton_ensemble.cli import main; main()"
    process = subprocess.run(
        [sys.executable, "-c", code, "--version"], capture_output=True, text=True
    )
    assert (process.returncode, process.stderr) == (0, "")
