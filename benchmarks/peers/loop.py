"""The steps called in a loop, without a server: what no server of one process can exceed. For serving.Program.

python loop.py ROW ...

Rows are files. As many rows are computed at once as are asked at once, up to 8.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from driver import obey
from pipeline import answers

ROWS = [Path(name).read_bytes() for name in sys.argv[1:]]
MAX_BATCH_SIZE = 8


def ask(row: int) -> dict[str, Any]:
    answer: dict[str, Any]
    [answer] = answers([ROWS[row]])
    return answer


def load(concurrency: int, seconds: float) -> tuple[int, list[float]]:
    size, done, took = min(concurrency, MAX_BATCH_SIZE), 0, []
    start = last = time.perf_counter()
    while last < start + seconds:
        answers([ROWS[i % len(ROWS)] for i in range(done, done + size)])
        done += size
        took.append(time.perf_counter() - last)
        last = time.perf_counter()
    return done, took


if __name__ == "__main__":
    obey(ask, load)
