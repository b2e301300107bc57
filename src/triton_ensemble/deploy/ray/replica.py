"""A replica: the gateway's application, and behind it a Triton of its own.

Ray starts replicas in the folder in which a node was started, which is the project's.
"""

from __future__ import annotations

import asyncio
import importlib
import logging.config
import os
import sys
from pathlib import Path
from typing import Any

from ray import serve

from triton_ensemble.deploy.ray import triton
from triton_ensemble.deploy.ray.metrics import Exporter
from triton_ensemble.facts.client import package
from triton_ensemble.facts.project import Project
from triton_ensemble.gateway.predict import Predictor, Readiness
from triton_ensemble.gateway.worker import CONFIG
from triton_ensemble.serve.container.inference import count_answers
from triton_ensemble.testing.files import choose_probe, samples

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
        self._triton = triton.choose_server(self._project)
        self._triton.__enter__()
        os.environ["TRITON_URL"] = self._triton.grpc_url
        self._client = package(self._project)
        self._client.runtime.grpc_transport.in_process.update(self._triton.connections)
        self._sample = choose_probe(samples(self._project))
        self._exporter = Exporter(self._triton.metrics)

    async def check_health(self) -> None:
        """Raise RuntimeError if the ensemble answers no inference.

        Serve then replaces the replica.
        """
        before = await self._count_answers()
        async with self._client.AsyncClient(self._triton.grpc_url, record="") as connection:
            ask = Predictor(self._client, connection, shared=False).first
            readiness = Readiness(
                lambda _: ask(self._sample.inputs, HEALTH_S),
                self._client,
                made_up=self._sample.made_up,
            )
            problem = await readiness.problem()
        is_busy = problem == self._client.DeadlineExceeded.__name__
        if problem and not (is_busy and await self._count_answers() > before):
            raise RuntimeError(f"{self._project.ensemble} does not answer: {problem}")

    async def _count_answers(self) -> float:
        """Return how many requests the ensemble has answered, or 0 if Triton does not say."""
        try:
            return count_answers(self._project, await asyncio.to_thread(self._triton.metrics))
        except OSError:
            return 0

    def __del__(self) -> None:
        """Stop Triton, once Serve has waited for requests in flight."""
        if hasattr(self, "_exporter"):
            self._exporter.stop()
            self._triton.__exit__(None, None, None)


Pipeline = serve.deployment(serve.ingress(gateway)(Replica), name="Pipeline")
application = Pipeline.bind()
