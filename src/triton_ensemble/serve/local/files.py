"""How many files a process may open at once. Each connection is one."""

from __future__ import annotations

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

MOST = 1 << 20  # a program that closes all that it could have open would take minutes for more


def raise_limit() -> int:
    """Let this process and its children open as many files as the system allows, and return how many."""
    if not resource:
        return MOST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST if hard < 0 else min(hard, MOST)  # below 0: without a limit
    if 0 <= soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
