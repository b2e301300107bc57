"""Unit tests start no process, but for those that libraries start by themselves."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BY_LIBRARIES = ("git", "git.exe", "lscpu")  # Copier asks git, joblib asks lscpu
STARTS = ("os.fork", "os.posix_spawn", "os.system", "subprocess.Popen")
FOLDER = Path(__file__).parent
running: list[str] = []


def _refuse_processes(event: str, arguments: tuple[Any, ...]) -> None:
    if running and event in STARTS:
        command = arguments[1] if event == "subprocess.Popen" else [event]
        program = os.fsdecode(command if isinstance(command, (str, bytes)) else command[0])
        if os.path.basename(program) not in BY_LIBRARIES:
            raise AssertionError(
                f"{running[-1]} starts {program}; move it to tests/process or tests/triton"
            )


sys.addaudithook(_refuse_processes)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Watch a test of this folder with its fixtures. Pytest calls this for the tests of other folders too."""
    if FOLDER not in item.path.parents:
        return (yield)
    running.append(item.nodeid)
    try:
        return (yield)
    finally:
        running.pop()
