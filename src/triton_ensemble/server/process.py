"""The process of a local server: signals that end it and us, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

EXIT_TIMEOUT_S = 5  # one idle client connection holds Triton up for all of it


class ServerError(RuntimeError):
    """Triton can't start here, or has ended: a line for each cause, and the path of the log."""


def _signals(handler: Callable[[int, FrameType | None], object]) -> None:
    """Let `kill` and a closed terminal end a program as Ctrl-C does, with nothing left behind."""
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if hasattr(signal, name):  # Windows has no SIGHUP
                signal.signal(getattr(signal, name), handler)


def interruptible() -> None:
    """Turn each signal that ends a program into a KeyboardInterrupt."""
    _signals(_interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    _signals(_ignore)  # a second one would cut short what ends the server
    raise KeyboardInterrupt


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Ignore a signal. With SIG_IGN Python would complain of a signal that came just before."""


def end(process: subprocess.Popen[bytes], gently: bool) -> None:
    """End a session; gently means by force after the exit timeout, or at once at a second Ctrl-C."""
    try:
        if gently:
            process.terminate()
            interruptible()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(EXIT_TIMEOUT_S + 2)
    finally:
        # Always: a model in an endless loop outlives its Triton.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_alive(process: subprocess.Popen[bytes], meanwhile: Callable[[], object], log: str) -> None:
    """Call `meanwhile` until it returns something true; ServerError, which ends with `log`, when Triton ends by itself."""
    while (code := process.poll()) is None:
        if meanwhile():
            return
        time.sleep(0.2)
    raise ServerError(f"Triton ended with exit code {code}{log}")
