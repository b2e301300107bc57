"""The Triton of a replica: in its own process if NVIDIA's Python API can be imported, or else a process beside it.

The process beside it is the image's Triton, started as the container does, or outside the image the local one. All
models are loaded before it is ready, and none later: no request can load one.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol
from urllib.error import URLError

from triton_ensemble.facts.project import Project
from triton_ensemble.serve.container.inference import DIRECT
from triton_ensemble.serve.local.guard import Guard
from triton_ensemble.serve.local.local_triton import BEHIND, LocalTriton
from triton_ensemble.serve.local.ports import HOST, free_ports
from triton_ensemble.serve.local.process import ServerError, wait_alive

LOG = logging.getLogger("gateway")
IMAGE = "/models"  # where the image has them
METRICS_S = 5.0
START_S = 1800.0  # a language model's engine takes as long; a server that fails ends by itself


class Triton(Protocol):
    """A server that is ready inside a `with` block, and gone behind it."""

    grpc_url: str
    connections: Mapping[str, object]  # to a server of this process, by the host of `grpc_url`

    def __enter__(self) -> Triton:
        """Start it, or raise ServerError if it can't serve."""

    def __exit__(self, *raised: object) -> None:
        """Stop it: requests in flight are answered first."""

    def metrics(self) -> str:
        """Return its metrics, in the form of Prometheus, or raise OSError if it does not answer."""


def choose_server(project: Project) -> Triton:
    """Return the server for this machine, and log which it is."""
    start = project.root / "serve.sh"
    is_image = start.is_file()
    try:
        from triton_ensemble.deploy.ray.in_process import InProcessTriton

        flags = start if is_image else project.root / "deploy/serve.sh"
        models = os.environ.get("MODEL_REPOSITORY") or (IMAGE if is_image else project.repository)
        server = InProcessTriton(str(models), project.ensemble, flags)
        LOG.info("the Triton of this replica: in its process")
        return server
    except (ImportError, ValueError) as error:
        LOG.info("the Triton of this replica is not in its process: %s", error)
    if is_image and shutil.which("tritonserver"):
        LOG.info("the Triton of this replica: the image's")
        return Child(ImageTriton(start))
    LOG.info("the Triton of this replica: the local one")
    local = LocalTriton(project.repository, project.ensemble, timeout=START_S, niceness=BEHIND)
    return Child(local)


class Child:
    """A Triton that is a process of its own, on ports that only this machine reaches.

    If it dies, this process ends too. Otherwise the replica would answer 503 at once, and so draw requests from others.
    """

    connections: Mapping[str, object] = {}

    def __init__(self, server: ImageTriton | LocalTriton) -> None:
        self._server = server
        self._is_leaving = threading.Event()

    def __enter__(self) -> Child:
        self._server.__enter__()
        self.grpc_url = self._server.grpc_url
        threading.Thread(target=self._die_with_it, daemon=True).start()
        return self

    def _die_with_it(self) -> None:
        try:
            self._server.wait(self._is_leaving.is_set)
        except ServerError as error:
            if not self._is_leaving.is_set():
                LOG.error("%s; this replica ends with it", error)
                os._exit(1)

    def __exit__(self, *raised: object) -> None:
        self._is_leaving.set()
        self._server.__exit__(*(raised or (None, None, None)))

    def metrics(self) -> str:
        with DIRECT.open(self._server.metrics_url, timeout=METRICS_S) as response:
            return str(response.read().decode())


class ImageTriton:
    """The image's Triton, started by its script. Its log goes into the replica's."""

    def __init__(self, start: Path) -> None:
        self._start = start

    def __enter__(self) -> ImageTriton:
        ports = free_ports(dict.fromkeys(("http", "grpc", "metrics"), 0))
        self.http_url = f"http://{HOST}:{ports['http']}"
        self.grpc_url = f"grpc://{HOST}:{ports['grpc']}"
        self.metrics_url = f"http://{HOST}:{ports['metrics']}/metrics"
        shared_memory = f"triton-{uuid.uuid4().hex[:8]}-"
        self._process = subprocess.Popen(
            ["sh", self._start, *flags(ports, shared_memory)],
            env=environment(os.environ),
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # so that the guard ends the processes of its models, too
        )
        self._guard = Guard(self._process.pid, Path("/dev/shm", shared_memory), shared_memory)
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.terminate()  # Triton has an exit timeout of its own
        self._process.wait()
        self._guard.end()

    def wait(self, meanwhile: Callable[[], object]) -> None:
        """Call `meanwhile` until it returns something true. Raise ServerError if the server ends by itself."""
        wait_alive(self._process, meanwhile, "; the log above says why")

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + START_S

        def is_ready() -> bool:
            if time.monotonic() > end:
                raise ServerError(f"Triton is not ready after {START_S:g} s")
            return self._is_ready()

        self.wait(is_ready)

    def _is_ready(self) -> bool:
        try:
            with DIRECT.open(f"{self.http_url}/v2/health/ready", timeout=5):
                return True
        except (URLError, OSError):
            return False


def flags(ports: Mapping[str, int], shared_memory: str) -> list[str]:
    """Return the flags that a replica's Triton gets besides the container's."""
    return [
        *(f"--{api}-address={HOST}" for api in ports),
        *(f"--{api}-port={port}" for api, port in ports.items()),
        f"--backend-config=python,shm-region-prefix-name={shared_memory}",
    ]


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for Triton: its steps import nothing of Ray's packages."""
    return {name: value for name, value in own.items() if name != "PYTHONPATH"}
