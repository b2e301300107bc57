"""The progress display: on a terminal with tqdm, and nothing of it anywhere else."""

from __future__ import annotations

import subprocess
import sys

import pexpect  # type: ignore[import-untyped]
import pytest
from support import ROOT, variables

PROGRAM = """
import time
from triton_ensemble.facts.progress import Progress

with Progress("concurrency 8", 3) as progress:
    time.sleep(0.7)
    progress.print("a line")
    progress.show("concurrency 16")
    time.sleep(0.7)
print("the end")
"""


def on_a_terminal(*setup: str) -> str:
    terminal = pexpect.spawn(
        sys.executable,
        ["-c", "\n".join([*setup, PROGRAM])],
        env=variables(PYTHONPATH=f"{ROOT}/src"),
        encoding="utf-8",
        dimensions=(24, 80),
    )
    terminal.expect(pexpect.EOF)
    return str(terminal.before)


def test_a_terminal_shows_the_display_below_what_is_printed() -> None:
    pytest.importorskip("tqdm")
    screen = on_a_terminal()
    first, line, second = screen.partition("\ra line\r\n")
    assert "concurrency 8 |" in first
    assert line
    assert "concurrency 16 |" in second
    assert second.rpartition("\r")[0].endswith(" \rthe end")  # the display is wiped away


def test_a_terminal_without_tqdm_shows_what_is_printed_alone() -> None:
    assert on_a_terminal("import sys; sys.modules['tqdm'] = None") == "a line\r\nthe end\r\n"


def test_a_file_gets_what_is_printed_alone() -> None:
    command, environment = [sys.executable, "-c", PROGRAM], variables(PYTHONPATH=f"{ROOT}/src")
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("a line\nthe end\n", "")
