"""The lines that a process of the gateway prints: its own lines as they are, one for each request, and warnings of uvicorn."""

from __future__ import annotations

import asyncio
import logging
import sys

from triton_ensemble.terminal import escape

CONFIG: dict[str, object] = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stdout": {"class": "triton_ensemble.gateway.log.Lines"}},
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
        """Keep the line until the turn ends; where no loop runs, write it."""
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
