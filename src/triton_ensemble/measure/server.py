"""The server under load: a Triton that serves the project's ensemble."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from triton_ensemble.facts.config.message import ModelConfig
from triton_ensemble.facts.config.repository import list_called_models, model_config
from triton_ensemble.facts.project import Project
from triton_ensemble.measure.closed_loop import Address
from triton_ensemble.serve.local.local_triton import LocalTriton, get
from triton_ensemble.serve.local.ports import grpc_target, not_asked

TIMEOUT_S = 10


class ServerUnderLoad:
    """A Triton that serves a project, inside a `with` block.

    `configs` are the ModelConfigs of the project's models as they are served, and `calls` has the models that each
    of them calls while it runs. If `local`, the server runs on this machine, for this program alone. Raises
    RuntimeError if there is no such Triton at `url`.
    """

    def __init__(
        self, project: Project, url: str, metrics_url: str, *, local: bool = False
    ) -> None:
        secure = urlsplit(url).scheme in ("https", "grpcs")
        self.project, self.url, self.local = project, url, local
        self._metrics_url = metrics_url
        self.address = Address(grpc_target(url), secure)
        self.client = grpc.InferenceServerClient(self.address.target, ssl=secure)
        self.configs: dict[str, ModelConfig] = {}
        self.calls = list_called_models(project.repository)

    def __enter__(self) -> ServerUnderLoad:
        paths = self.project.repository.glob("*/config.pbtxt")
        try:
            self.client.is_server_ready(client_timeout=TIMEOUT_S)
            self.configs = {
                name: self._config(name) for name in sorted(p.parent.name for p in paths)
            }
        except InferenceServerException as error:
            self.client.close()
            raise RuntimeError(self._problem(error)) from None
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def metrics(self) -> str:
        """Return the text of Triton's metrics, or an empty text if they can't be read."""
        try:
            return get(self._metrics_url)
        except OSError:
            return ""

    def _config(self, model: str) -> ModelConfig:
        """Return the config as it is served, or as it is written if the server keeps it to itself."""
        try:
            return self.client.get_model_config(model, client_timeout=TIMEOUT_S).config
        except InferenceServerException as error:
            if "restricted" not in error.message():
                raise
            return model_config(self.project.repository, model)

    def _problem(self, error: InferenceServerException) -> str:
        if "UNAVAILABLE" not in str(error.status()):
            return f"{self.url} does not serve this project: {error.message()}"
        return (
            f"no Triton answers gRPC at {self.address.target} ({error.message()}); "
            "write TRITON_URL=grpc://host:port, or its port as GRPC_PORT"
        )


@contextmanager
def serve_for_load(project: Project, *server_args: str) -> Iterator[ServerUnderLoad]:
    """Yield the server at TRITON_GRPC_URL or TRITON_URL, or start a local one with `server_args` for the block."""
    if url := os.environ.get("TRITON_GRPC_URL") or os.environ.get("TRITON_URL"):
        metrics = f"http://{urlsplit(url).hostname}:8002/metrics"
        with ServerUnderLoad(
            project, url, os.environ.get("TRITON_METRICS_URL") or metrics
        ) as server:
            yield server
        return
    print(f"Starting a local Triton ...{not_asked('grpc')}", flush=True)
    with LocalTriton(project.repository, project.ensemble, server_args=server_args) as triton:
        print(*triton.notes, sep="\n", end="\n" if triton.notes else "")
        with ServerUnderLoad(project, triton.grpc_url, triton.metrics_url, local=True) as server:
            yield server
