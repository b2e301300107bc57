"""A side of a gate: a project that `triton-ensemble serve` serves, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from os import environ
from pathlib import Path

from triton_ensemble import LAUNCHED
from triton_ensemble.facts.project import Project
from triton_ensemble.measure.server import ServerUnderLoad
from triton_ensemble.serve.local.guard import Guard
from triton_ensemble.serve.local.process import end, interruptible

FREE_PORTS = ("--http-port=0", "--grpc-port=0", "--metrics-port=0")
# This process's environment is good for a side if its files are equal.
INSTALLED = ("requirements.lock", "vendor/requirements.txt")
OWN = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "VENV", "VIRTUAL_ENV")  # variables of this project


@contextmanager
def serve_side(project: Project, root: Path, folder: Path, name: str) -> Iterator[ServerUnderLoad]:
    """Complete and serve `root`, a version of a project, for the block, with a log in `folder`.

    The server ends with this program. Raise RuntimeError with a line on the side of this name if it can't be served.
    """
    interruptible()
    program, variables = _choose_toolkit(project, root)
    kept = {key: value for key, value in environ.items() if key not in OWN}
    with (folder / f"{root.name}.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, *program, "serve", *FREE_PORTS],
            cwd=root,
            env=kept | variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        guard = Guard(process.pid, folder, f"{folder.name}-")
        try:
            url, metrics_url = _wait_for_addresses(process, Path(log.name), name)
            with ServerUnderLoad(Project.load(root), url, metrics_url, local=True) as server:
                yield server
        finally:
            end(process, gently=True)
            guard.end()


def _choose_toolkit(project: Project, root: Path) -> tuple[list[str], dict[str, str]]:
    """Return the words and variables that call this toolkit, or that of a side's wheel if its packages differ."""
    pairs = [(project.root / name, root / name) for name in INSTALLED]
    if all(own.is_file() and own.read_bytes() == now.read_bytes() for now, own in pairs):
        return ["-m", "triton_ensemble"], {LAUNCHED: "1", "SETUP": ""}
    print("Its packages differ: it gets an environment of its own.", flush=True)
    return [str(next(root.glob("vendor/triton_ensemble-*.whl"), root)) + "/triton_ensemble"], {}


def _wait_for_addresses(process: subprocess.Popen[bytes], log: Path, name: str) -> tuple[str, str]:
    """Return the addresses of gRPC and of metrics, which come when the ensemble is ready."""
    while process.poll() is None:
        said = log.read_text(errors="replace")
        if found := re.search(r"^(grpc://\S+)\n(http://\S+/metrics)\n", said, re.MULTILINE):
            return found[1], found[2]
        time.sleep(0.05)
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    told = [line for line in lines if line and not line.startswith("log: ")]
    raise RuntimeError(f"{name}: {['it ended', *told][-1]}")
