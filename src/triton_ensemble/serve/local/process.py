"""The process of a local server: signals that end it and us, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from triton_ensemble.facts.signals import handle

EXIT_TIMEOUT_S = 5  # one idle client connection holds Triton up for all of it


class ServerError(RuntimeError):
    """Triton can't start here, or has ended: a line for each cause, and the path of the log."""


def interruptible() -> None:
    """Turn each signal that ends a program into a KeyboardInterrupt: `kill` and a closed terminal leave nothing either."""
    handle(_interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    handle(_ignore)  # a second one would cut short what ends the server
    raise KeyboardInterrupt


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Ignore a signal. With SIG_IGN Python would complain of a signal that came just before."""


def end(process: subprocess.Popen[bytes], gently: bool) -> None:
    """End a session, by force or gently.

    Gently means by force only after the exit timeout, or at once at a second Ctrl-C.
    """
    try:
        if gently and process.returncode is None:  # else its number may be another process's
            os.kill(process.pid, signal.SIGTERM)
            interruptible()
            deadline = time.monotonic() + EXIT_TIMEOUT_S + 2
            while exit_code(process) is None and time.monotonic() < deadline:
                time.sleep(0.02)
    finally:
        # Always: a model in an endless loop outlives its Triton.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of a process, or None while it runs.

    A KeyboardInterrupt inside Popen's poll(), wait() or terminate() may leave its lock taken: the next wait() never ends.
    """
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # another thread has waited for it
        return process.wait()
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def wait_alive(process: subprocess.Popen[bytes], meanwhile: Callable[[], object], log: str) -> None:
    """Call `meanwhile` until it returns something true.

    Raise ServerError, whose text ends with `log`, if Triton ends by itself.
    """
    while not meanwhile():
        # Often, because a replica without its Triton refuses at once, and so draws requests from others.
        for _ in range(10):
            if (code := exit_code(process)) is not None:
                raise ServerError(f"Triton ended with exit code {code}{log}")
            time.sleep(0.02)
