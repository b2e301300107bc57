"""What a generated project serves: its ensemble in three forms, the gateway before it, and each step by itself."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers.by_client import Caller
from benchmarks.peers.environments import ROOT
from benchmarks.peers.others import lines, tensor, tensors, text, written
from benchmarks.peers.serving import Served, over_http, program, wait
from benchmarks.peers.works import Projects, Work
from benchmarks.processes import started
from benchmarks.works import EXAMPLES
from benchmarks.works import HERE as WORKS
from benchmarks.wrk import Request
from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.ports import free_ports

# More places than there are clients: else it would refuse some.
PLACES = {"GATEWAY_WAITING": "128", "GATEWAY_WAIT_S": "30"}


def alone(work: Work, row: bytes) -> Request:
    """Return a row as the gateway takes it by itself."""
    kind = "text/plain" if work.kind == "texts" else "image/jpeg"
    return Request("/predict", row, {"Content-Type": kind})


@contextmanager
def gateway(projects: Projects, triton: str, log: Path) -> Iterator[Served]:
    """Serve the gateway of the fused variant with one worker, as `make up` does."""
    port = free_ports({"http": 0})["http"]
    command = [sys.executable, "-m", "triton_ensemble", "gateway", f"--port={port}", "--workers=1"]
    env = {**os.environ, "PYTHONPATH": f"src:{ROOT / 'src'}", "TRITON_URL": triton, **PLACES}
    with started(command, log, cwd=projects.project("fused"), env=env) as process:
        load, ask = over_http(f"http://127.0.0.1:{port}", projects.work, alone, text)
        wait(ask, process, log)
        yield Served(load, ask, [process.pid])


class Ours(NamedTuple):
    """A variant of the generated project, over Triton's HTTP or through the gateway."""

    title: str
    variant: str
    through_gateway: bool = False
    packages: tuple[str, ...] = ()

    def lines(self, work: Work) -> int:
        """Return those of pipeline.yml that say tensors and steps."""
        return pipeline_lines(work)

    @contextmanager
    def serving(self, projects: Projects, folder: Path) -> Iterator[Served]:
        project, work = projects.project(self.variant), projects.work
        with LocalTriton(project / "model_repository", "served") as triton:
            if self.through_gateway:
                with gateway(projects, triton.http_url, folder / "log") as served:
                    yield served._replace(pids=[triton.pid, *served.pids])
            else:
                asked = partial(tensor, "served", work.input, work.outputs)
                asking = over_http(triton.http_url, work, lambda _, row: asked(row), tensors)
                yield Served(*asking, [triton.pid])


class ByClient(NamedTuple):
    """The models of the ensemble whose steps are apart, called one after the other by a client."""

    title: str = "client calls each step"
    packages: tuple[str, ...] = ()

    def lines(self, work: Work) -> int:
        """Return those of pipeline.yml and of the calls."""
        calls = inspect.getsource(Caller).splitlines()
        return pipeline_lines(work) + sum(bool(line.strip()) for line in calls)

    @contextmanager
    def serving(self, projects: Projects, folder: Path) -> Iterator[Served]:
        project, work = projects.project("apart"), projects.work
        models = json.dumps([called(step) for step in projects.answers("apart")["steps"]])
        command = [sys.executable, "-m", "benchmarks.peers.by_client"]
        with LocalTriton(project / "model_repository", "served") as triton:
            address = triton.grpc_url.removeprefix("grpc://")
            rows = written(work, folder)
            with program([*command, address, models, *rows], folder / "log") as served:
                yield served._replace(pids=[triton.pid, *served.pids])


def called(step: dict[str, Any]) -> list[Any]:
    """Return a step's model, and which tensor each of its inputs and outputs is."""
    return [step["name"], *(_named(step[kind]) for kind in ("inputs", "outputs"))]


def _named(tensors: list[str] | dict[str, str]) -> dict[str, str]:
    return tensors if isinstance(tensors, dict) else {name: name for name in tensors}


def pipeline_lines(work: Work) -> int:
    """Return the lines for tensors and steps, and one for the instances of each step."""
    return lines(EXAMPLES.get(work.name, WORKS / work.name) / "pipeline.yml") + 3


OURS: list[Ours | ByClient] = [
    Ours("ours: apart", "apart"),
    Ours("ours: fused", "fused"),
    Ours("ours: one model", "one model"),
    Ours("ours: fused, gateway", "fused", through_gateway=True),
    ByClient(),
]
