"""A replica's Triton inside of its own process, by NVIDIA's Python API: no ports, and no tensors through a socket."""

from __future__ import annotations

import gc
import logging
import os
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import tritonserver

from triton_ensemble.deploy.ray.connection import Connection
from triton_ensemble.serve import s3_readable as readable
from triton_ensemble.serve.local.guard import Guard
from triton_ensemble.serve.local.process import ServerError

LOG = logging.getLogger("gateway")
FLAG = re.compile(r"^\s+--([\w-]+)=?(\S*) \\$", re.MULTILINE)  # in serve.sh
OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {  # and what makes its value of the text
    "backend-directory": ("backend_directory", str),
    "cache-directory": ("cache_directory", str),
    "disable-auto-complete-config": ("strict_model_config", lambda _: True),
    "exit-timeout-secs": ("exit_timeout", int),
    "strict-readiness": ("strict_readiness", "true".__eq__),
}
GROUPS = {
    "backend-config": "backend_configuration",
    "cache-config": "cache_config",
    "metrics-config": "metrics_configuration",
}
# Models are loaded by name here, and there is no HTTP.
WITHOUT = {"http-max-input-size", "model-control-mode"}


class InProcessTriton:
    """Triton with the flags of the container's script `start`. Raises ValueError for a flag that is unknown here."""

    grpc_url: str = "grpc://in-process"  # nothing listens there

    def __init__(self, repository: str, model: str, start: Path) -> None:
        self._model = model
        self._options = options(FLAG.findall(start.read_text(encoding="utf-8")))
        self._options["model_repository"] = self._repository = repository

    def __enter__(self) -> InProcessTriton:
        is_bucket = self._repository.startswith("s3://")
        if is_bucket and (problem := readable.problem(self._repository, os.environ)):
            raise ServerError(f"MODEL_REPOSITORY: {problem}")
        os.environ.pop("PYTHONPATH", None)  # steps import nothing of Ray's packages
        if os.getpgrp() != os.getpid():
            os.setpgrp()  # the processes of models end with this one, by the guard
        shared_memory = f"triton-{uuid.uuid4().hex[:8]}-"
        python = self._options["backend_configuration"].setdefault("python", {})
        python["shm-region-prefix-name"] = shared_memory
        self._guard = Guard(os.getpid(), Path("/dev/shm", shared_memory), shared_memory)
        self._server = tritonserver.Server(**self._options)
        self.connection = Connection(self._server)
        self.connections: Mapping[str, object] = {"in-process": self.connection}
        try:
            self._load()
        except tritonserver.TritonError as error:
            self.__exit__()
            raise ServerError(str(error)) from None
        return self

    def _load(self) -> None:
        """Load all models by name, because that lets other threads run meanwhile."""
        self._server.start()
        self._server.load(self._model)
        rest = {m.name for m in self._server.models().values() if m.state != "READY"}
        for name in sorted(rest):
            self._server.load(name)

    def __exit__(self, *raised: object) -> None:
        if self.connection.refused:  # it would wait for these until its exit timeout
            LOG.warning("Triton has refused %d requests by itself", self.connection.refused)
            return  # its processes end with this one
        gc.collect()  # errors that nobody waited for, which hold their requests
        try:
            self._server.stop()
            self._guard.end()
        except tritonserver.TritonError as error:
            LOG.error("Triton has not ended: %s", error)

    def metrics(self) -> str:
        """Return Triton's metrics, in the form of Prometheus."""
        return str(self._server.metrics())


def options(flags: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the options of the Python API for flags of tritonserver.

    Raise ValueError for a flag that the API lacks.
    """
    logged = dict.fromkeys(("log_info", "log_warn", "log_error"), True)
    chosen: dict[str, Any] = {**logged, **{group: {} for group in GROUPS.values()}}
    chosen["model_control_mode"] = tritonserver.ModelControlMode.EXPLICIT
    for flag, value in flags:
        if flag in OPTIONS:
            name, kind = OPTIONS[flag]
            chosen[name] = kind(value)
        elif flag in GROUPS:
            owner, _, setting = value.rpartition(",")
            name, _, text = setting.partition("=")
            chosen[GROUPS[flag]].setdefault(owner, {})[name] = text
        elif flag not in WITHOUT:
            raise ValueError(f"its Python API has no option for --{flag} of serve.sh")
    return chosen
