"""The gateway of a generated project, as `make gateway` starts it, before a Triton that runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from benchmarks.processes import started
from triton_ensemble.serve.local.ports import free_ports

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
    environment = {**os.environ, "PYTHONPATH": f"src:{ROOT / 'src'}", "TRITON_URL": triton, **given}
    url, log = f"http://127.0.0.1:{port}", project / "gateway.log"
    command.append(f"--workers={workers}")
    with started(command, log, cwd=project, env=environment) as process:
        while process.poll() is None:
            with suppress(OSError):
                urlopen(f"{url}/healthz").close()
                break
            time.sleep(0.1)
        else:
            raise RuntimeError(f"the gateway has ended:\n{log.read_text()}")
        time.sleep(2)  # the other workers start
        yield Service(url, process.pid)
