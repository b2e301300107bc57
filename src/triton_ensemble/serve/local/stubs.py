"""The processes that run the models of Python and of local backends, one for each instance.

Triton 24.10 neither says that one has died nor starts another: requests to its model fail from then on.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
PROGRAM = "triton_python_backend_stub"
INSTANCE = 8  # of its arguments, as label_0_0: model, group, number


class Stubs:
    """The stub processes of the Triton whose process is `server`."""

    def __init__(self, server: int) -> None:
        self._server = server
        self._models: dict[int, str] = {}
        self._suspected: set[int] = set()
        list(self.find_dead())  # those that run now are known from now on

    def find_dead(self) -> Iterator[tuple[str, str]]:
        """Yield model and cause of each process that was found dead in two calls.

        Triton reaps others at once.
        """
        dead = set()
        for pid in _list_children(self._server):
            state, status = _state(pid)
            if state == "Z":
                dead.add(pid)
                if pid in self._suspected and (model := self._models.pop(pid, None)):
                    yield model, _cause(status)
            elif pid not in self._models and (model := _model(pid)):
                self._models[pid] = model
        self._suspected = dead


def _list_children(process: int) -> list[int]:
    """Return the child processes of all threads of a process."""
    found: list[int] = []
    for file in (PROC / str(process) / "task").glob("*/children"):
        with suppress(OSError):
            found += map(int, file.read_text().split())
    return found


def _state(pid: int) -> tuple[str, int]:
    """Return the state of a process, Z for a dead one, and the status that it ended with."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", 0
    return fields[0], int(fields[-1])


def _model(pid: int) -> str:
    """Return the model that a process runs an instance of, or an empty string for another program."""
    with suppress(OSError):
        arguments = (PROC / str(pid) / "cmdline").read_bytes().decode().split("\0")
        if arguments[0].endswith(PROGRAM) and len(arguments) > INSTANCE:
            return arguments[INSTANCE].rsplit("_", 2)[0]
    return ""


def _cause(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit code {os.waitstatus_to_exitcode(status)}"
