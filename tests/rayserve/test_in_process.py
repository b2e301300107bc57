"""Replicas with Triton in their own process, by NVIDIA's Python API, which is built for it.

python scripts/bindings.py CORE FOLDER     # CORE: the sources of triton-inference-server/core, r25.01 or newer
TRITON_BINDINGS=FOLDER make test-ray
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rayserve.cluster import (
    Service,
    cluster,
    eventually,
    is_alive,
    parent,
    processes,
    statuses,
    waiting,
    wrong,
)
from rayserve.in_process import Image
from support import Generate, Project

BINDINGS = os.environ.get("TRITON_BINDINGS", "")
pytestmark = pytest.mark.skipif(
    not BINDINGS, reason="TRITON_BINDINGS names no folder that scripts/bindings.py has filled"
)
EXIT_S = 150  # for what a Triton that does not end would take
QUICK = {
    "health_check_period_s": 1,
    "health_check_timeout_s": 10,
    "graceful_shutdown_timeout_s": EXIT_S + 50,
}


@pytest.fixture(scope="module")
def built(generate: Generate) -> Iterator[Image]:
    image = Image(waiting(generate).path, EXIT_S)
    yield image
    image.remove()


@pytest.fixture(scope="module")
def service(built: Image) -> Iterator[Service]:
    with pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join([BINDINGS, os.environ.get("PYTHONPATH", "")])
        patch.setenv("PYTHONPATH", path)
        with cluster(Project(built.opt), 4, **built.variables) as service:
            service.deploy(2, **QUICK)
            yield service


def test_both_answer_and_rightly(service: Service) -> None:
    answers = service.load(200, 16, 5)
    assert (statuses(answers), wrong(answers, 5)) == ({200: 200}, [])
    steps = processes(answers)
    assert len(steps) == 2
    for step in steps:  # a process of the replica, with no server between them
        assert "tritonserver" not in Path(f"/proc/{parent(step)}/cmdline").read_text()
        assert "ServeReplica" in Path(f"/proc/{parent(step)}/cmdline").read_text()


def test_what_is_wrong_is_refused_and_harms_nothing(service: Service) -> None:
    for _ in range(20):
        assert service.ask(-1).status == 400
    assert b"INPUT: is below 0" in service.ask(-1).content
    assert statuses(service.load(20, 4)) == {200: 20}


def test_a_replica_ends_promptly(service: Service) -> None:
    steps = processes(service.load(20, 4, 5)).keys()
    service.ask(-1)
    start = time.monotonic()
    service.deploy(1, **QUICK)
    eventually(lambda: service.replicas() == 1)
    eventually(lambda: not any(map(is_alive, steps - processes(service.load(8, 4, 5)).keys())))
    assert time.monotonic() - start < EXIT_S / 2
    assert len(processes(service.load(8, 4, 5))) == 1
    service.deploy(2, **QUICK)
    eventually(lambda: len(processes(service.load(8, 4, 5))) == 2)


def test_a_replica_that_is_killed_leaves_nothing(service: Service) -> None:
    victim = next(iter(processes(service.load(20, 4, 5))))
    words = Path(f"/proc/{victim}/cmdline").read_text().split("\0")
    [regions] = {word for word in words if word.startswith("triton-")}
    prefix = regions.rpartition("-")[0]
    assert list(Path("/dev/shm").glob(f"{prefix}*"))
    os.kill(parent(victim), signal.SIGKILL)
    eventually(lambda: not is_alive(victim))
    eventually(lambda: not list(Path("/dev/shm").glob(f"{prefix}*")))
    eventually(lambda: len(processes(service.load(12, 4, 5)).keys() - {victim}) == 2)


def test_a_step_whose_process_is_killed_has_its_replica_replaced(service: Service) -> None:
    victim = next(iter(processes(service.load(20, 4, 5))))
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: len(processes(service.load(12, 4, 5)).keys() - {victim}) == 2)
    assert statuses(service.load(50, 8, 5)) == {200: 50}
