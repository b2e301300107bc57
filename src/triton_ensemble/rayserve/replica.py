"""A replica: the gateway's application, and behind it a Triton of its own.

Ray starts replicas in the folder in which a node was started, which is the project's.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging.config
import os
import sys
from pathlib import Path
from typing import Any

from ray import serve

from triton_ensemble.client import package
from triton_ensemble.container import health
from triton_ensemble.gateway.log import CONFIG
from triton_ensemble.project import Project
from triton_ensemble.rayserve import triton
from triton_ensemble.rayserve.metrics import Exporter

HEALTH_S = 20.0  # for an inference; less than the 30 s that Serve gives a check


def gateway() -> Any:
    """Return the project's REST service, which asks the Triton that runs by now."""
    project = Project.load(Path.cwd())
    package(project)
    sys.path.insert(0, str(project.root))
    return importlib.import_module("gateway.app").app


class Replica:
    """One Triton, from the replica's start to its end."""

    def __init__(self) -> None:
        logging.config.dictConfig(CONFIG)
        self._project = Project.load(Path.cwd())
        self._triton = triton.of_project(self._project)
        self._triton.__enter__()
        os.environ["TRITON_URL"] = self._triton.grpc_url
        self._exporter = Exporter(self._triton.metrics_url)
        self._health = argparse.Namespace(
            url=self._triton.http_url,
            metrics=self._triton.metrics_url,
            timeout=HEALTH_S,
            project=self._project.root,
            header=[],
            since=None,
        )

    async def check_health(self) -> None:
        """Raise where the ensemble answers no inference: Serve then replaces the replica."""
        healthy, line = await asyncio.to_thread(health.check, self._health)
        if not healthy:
            raise RuntimeError(line)

    def __del__(self) -> None:
        """Stop Triton, once Serve has waited for requests in flight."""
        if hasattr(self, "_exporter"):
            self._exporter.stop()
            self._triton.__exit__(None, None, None)


Pipeline = serve.deployment(serve.ingress(gateway)(Replica), name="Pipeline")
application = Pipeline.bind()
