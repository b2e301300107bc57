"""Room for the counters that workers share: a write to mapped memory that a full disk can't give ends a process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
KINDS = ("counter", "gauge_livesum", "histogram")  # each is a file of a worker
FILE_BYTES = 256 << 10  # of about a hundred routes


def reserve() -> None:
    """Reserve this worker's files, before prometheus_client maps them; without room, it counts for itself."""
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
