"""The gateway of a generated project, as `make gateway` starts it, before a Triton that runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from triton_ensemble.server.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]


class Service(NamedTuple):
    """Its URL, and the process that has started its others."""

    url: str
    pid: int


@contextmanager
def gateway(project: Path, triton: str, workers: int, **settings: object) -> Iterator[Service]:
    """Serve a project's gateway with so many workers; `settings` are variables without GATEWAY_, in small letters."""
    port = free_ports({"http": 0})["http"]
    command = [sys.executable, "-m", "triton_ensemble", "gateway", f"--port={port}"]
    given = {f"GATEWAY_{name.upper()}": str(value) for name, value in settings.items()}
    process = subprocess.Popen(
        [*command, f"--workers={workers}"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": f"src:{ROOT / 'src'}", "TRITON_URL": triton, **given},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _wait(f"http://127.0.0.1:{port}/healthz", process)
        yield Service(f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            urlopen(url).close()
        except OSError:
            time.sleep(0.1)
        else:
            time.sleep(2)  # the other workers start
            return
    raise RuntimeError("the gateway has ended; its last lines say why")
