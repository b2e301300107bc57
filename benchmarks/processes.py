"""The processes of a server: what they take, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

END_S = 10.0  # for a server to end by itself


def family(pid: int) -> Iterator[Path]:
    """Yield /proc/PID of a process, and of all that it and they have started."""
    children = defaultdict(list)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            children[int(parent)].append(int(process.name))
    found = [pid]
    for each in found:
        found += children[each]
        yield Path("/proc", str(each))


def cpu_seconds(process: Path) -> float:
    """The time that all threads of a process have run: whatever else the machine does, it hardly adds to that."""
    times = (path.read_text().split()[0] for path in process.glob("task/*/schedstat"))
    return sum(map(int, times)) / 1e9


def memory_mib(process: Path) -> float:
    """What a process holds, its part of what several share."""
    lines = (process / "smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


@contextmanager
def started(command: Sequence[str], log: Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a command with its output in a log, unless `options` say otherwise. Then end it and all that it has started."""
    with log.open("w") as file:
        output = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file, **options}
        process = subprocess.Popen(command, text=True, start_new_session=True, **output)
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    members = list(family(process.pid))
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_S)
    for member in members:  # some servers leave workers behind
        with suppress(ProcessLookupError):
            os.kill(int(member.name), signal.SIGKILL)
    with suppress(ProcessLookupError):  # and a shell what it has started in the background
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
