"""Several nodes: a replica on each, a node that is lost under load, a node that comes."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator

import pytest
from rayserve.cluster import (
    QUICK,
    Service,
    cluster,
    eventually,
    only_reported,
    processes,
    statuses,
    waiting,
    wrong,
)
from support import Generate, run


@pytest.fixture(scope="module")
def service(generate: Generate) -> Iterator[Service]:
    with cluster(waiting(generate), 0, 1, 1) as service:
        # All nodes have the address of this machine, where a single proxy can have the port.
        service.settings["proxy_location"] = "HeadOnly"
        service.deploy(2, **QUICK)
        yield service


def test_a_lost_node_costs_no_wrong_answer_and_a_new_one_is_used(service: Service) -> None:
    assert len(processes(service.load(40, 8, 5))) == 2  # a node has one CPU, and so one replica
    nodes = service.cluster
    lost = next(iter(nodes.worker_nodes))
    timer = threading.Timer(0.7, nodes.remove_node, [lost, False])
    timer.start()
    answers = service.load(400, 8, 20)
    timer.join()
    assert wrong(answers, 20) == []
    seen = statuses(answers)
    assert seen[200] >= 380, seen
    assert only_reported(answers), seen
    eventually(lambda: service.replicas() == 1)
    assert len(processes(service.load(20, 8, 5))) == 1
    nodes.add_node(num_cpus=1)
    eventually(lambda: len(processes(service.load(20, 8, 5))) == 2)
    answers = service.load(100, 8, 5)
    assert (statuses(answers), wrong(answers, 5)) == ({200: 100}, [])


def test_a_serve_that_runs_there_is_left_alone(service: Service) -> None:
    address = service.cluster.address
    command = (sys.executable, "-m", "triton_ensemble", "ray", "--port=0", "--test")
    refused = run(*command, cwd=service.project.path, **os.environ | {"RAY_ADDRESS": address})
    assert refused.returncode == 1
    problem = (
        f"Ray Serve runs at {address} already; deploy it there: serve deploy deploy/ray/serve.yaml"
    )
    assert refused.stderr.splitlines()[-1] == problem
    assert statuses(service.load(20, 4)) == {200: 20}
