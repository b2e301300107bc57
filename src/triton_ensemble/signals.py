"""The signals that end a program."""

from __future__ import annotations

import signal
import threading

# Windows has no SIGHUP.
STOPS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def ignore_signals() -> None:
    """Ignore those signals from now on: a command that is done would count as killed.

    Python's exit puts back what they do by default.
    """
    if threading.current_thread() is threading.main_thread():
        for number in STOPS:
            signal.signal(number, signal.SIG_IGN)
