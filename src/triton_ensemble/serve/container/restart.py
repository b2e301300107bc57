"""Which failures of the health check in a row stop the container's server, so that it is started again.

Triton does not start a Python process again that has died, nor Docker a container that is unhealthy.
A server that has not yet answered is left alone, for it still loads its models.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

# A folder for each failure: these need no room on a disk that is full.
FAILURES = Path("/tmp/health.failures")
LOG = Path("/proc/1/fd/2")
# Checks that a server has for requests in flight, before it is killed.
CHECKS_TO_END = 8
# Seconds for them if a process has died: Triton waits for its model until the exit timeout is over.
ENDING_S = 5


def record(healthy: bool, limit: int) -> bool:
    """Take the result of a check into account: stop the server from the `limit`th failure in a row on, and return True."""
    if healthy:
        with suppress(OSError):
            shutil.rmtree(FAILURES, ignore_errors=True)
            FAILURES.mkdir(exist_ok=True)
    elif FAILURES.is_dir():
        failures = len(os.listdir(FAILURES)) + 1
        (FAILURES / str(failures)).mkdir()
        if failures >= limit:
            _stop(failures, kill=failures >= limit + CHECKS_TO_END)
            return True
    return False


def kill_soon() -> None:
    """Kill a server that was told to stop, but can't unload a model whose process has died."""
    time.sleep(ENDING_S)
    os.kill(-1, signal.SIGKILL)


def _stop(failures: int, *, kill: bool) -> None:
    with suppress(OSError):
        LOG.write_text(f"health check: no answer, {failures} times in a row; stopping the server\n")
    if kill:
        os.kill(-1, signal.SIGKILL)
    else:
        os.kill(1, signal.SIGTERM)
