"""The set-up of each process of the gateway: room for the counters that workers share, and the lines of its log."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

from triton_ensemble.facts.terminal import escape

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
KINDS = ("counter", "gauge_livesum", "histogram")  # each is a file of a worker
FILE_BYTES = 256 << 10  # of about a hundred routes


def reserve() -> None:
    """Reserve this worker's files, before prometheus_client maps them.

    If there is no room for them, the worker counts for itself.
    """
    if not (folder := os.environ.get(FOLDER)):
        return
    files = [Path(folder, f"{kind}_{os.getpid()}.db") for kind in KINDS]
    try:
        for file in files:
            file.write_bytes(bytes(FILE_BYTES))
    except OSError as error:
        for file in files:
            file.unlink(missing_ok=True)
        del os.environ[FOLDER]
        what = f"has no room for the counters of a worker ({error.strerror})"
        print(f"{Path(folder).parent} {what}: /metrics lacks them", file=sys.stderr, flush=True)


CONFIG: dict[str, object] = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stdout": {"class": "triton_ensemble.gateway.worker.Lines"}},
    "loggers": {
        "gateway": {"handlers": ["stdout"], "level": "INFO"},
        "uvicorn.error": {"handlers": ["stdout"], "level": "WARNING"},
    },
}


class Lines(logging.Handler):
    """Writes the lines of one turn of the event loop at once: a write for each was a fifth of what it costs to refuse a request."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the line until the turn ends, or write it if no loop runs."""
        self._lines.append(self.format(record) + "\n")
        if len(self._lines) > 1:
            return
        try:
            asyncio.get_running_loop().call_soon(self.flush)
        except RuntimeError:
            self.flush()

    def flush(self) -> None:
        """Write what is kept."""
        assert self.lock
        with self.lock:
            lines, self._lines = self._lines, []
        sys.stdout.write(escape("".join(lines)))
        sys.stdout.flush()
