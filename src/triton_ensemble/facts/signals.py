"""The signals that end a program."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

# Windows has no SIGHUP.
STOPS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def handle(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    """Handle the signals that end a program by `handler`.

    Python allows that in the main thread only, so elsewhere nothing changes.
    """
    if threading.current_thread() is threading.main_thread():
        for number in STOPS:
            signal.signal(number, handler)


def hold_signals(held: bool) -> None:
    """Hold the signals that end a program back, or let them come.

    Python that starts can't handle one. Windows can't hold any.
    """
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK if held else signal.SIG_UNBLOCK, STOPS)


def ignore_signals() -> None:
    """Ignore the signals that end a program from now on, because a command that is done would count as killed.

    Python's exit puts back what they do by default.
    """
    handle(signal.SIG_IGN)
