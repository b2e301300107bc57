"""The content of the image of a Ray node, as a folder: each replica starts the Triton in PATH as the container does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from rayserve.cluster import (
    QUICK,
    Service,
    cluster,
    eventually,
    is_alive,
    processes,
    statuses,
    triton_of,
    waiting,
    wrong,
)
from rayserve.image import image
from support import Generate, Project


@pytest.fixture(scope="module")
def service(generate: Generate) -> Iterator[Service]:
    project = waiting(generate)
    with image(project.path) as built:
        variables = {**built.variables, "RAY_SERVE_ENABLE_HA_PROXY": "1"}
        with cluster(Project(built.opt), 2, **variables) as service:
            service.deploy(2, **QUICK)
            yield service


def test_each_replica_has_a_triton_of_the_image(service: Service) -> None:
    answers = service.load(100, 8, 5)
    assert (statuses(answers), wrong(answers, 5)) == ({200: 100}, [])
    # The proxy may learn of the second replica after a hundred answers.
    eventually(lambda: len(processes(service.load(20, 4, 5))) == 2)
    command = Path(f"/proc/{triton_of(next(iter(processes(answers))))}/cmdline").read_text()
    assert "--model-control-mode=none" in command  # no request can load a model


def test_a_replica_that_is_killed_leaves_nothing(service: Service) -> None:
    victim = next(iter(processes(service.load(20, 4, 5))))
    server = triton_of(victim)
    [prefix] = [
        word
        for word in Path(f"/proc/{server}/cmdline").read_text().split("\0")
        if "shm-region" in word
    ]
    regions = prefix.rpartition("=")[2]
    assert list(Path("/dev/shm").glob(f"{regions}*"))
    parent = int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    eventually(lambda: not is_alive(server) and not is_alive(victim))
    eventually(lambda: not list(Path("/dev/shm").glob(f"{regions}*")))
    eventually(lambda: len(processes(service.load(12, 4, 5)).keys() - {victim}) == 2)
