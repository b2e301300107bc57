"""Two replicas on one node: right answers, spread, and what happens when one dies, when many come, when load changes."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from rayserve.cluster import (
    QUICK,
    Service,
    cluster,
    eventually,
    is_alive,
    only_reported,
    parent,
    processes,
    ray_metrics,
    statuses,
    triton_of,
    waiting,
    wrong,
)
from support import Generate


@pytest.fixture(scope="module")
def service(generate: Generate) -> Iterator[Service]:
    with cluster(waiting(generate), 4, RAY_metrics_report_interval_ms="1000") as service:
        service.deploy(2, **QUICK)
        yield service


@pytest.fixture
def two(service: Service) -> Service:
    """Return the application with two replicas that answer, as tests before this one may have left others."""
    if service.replicas() != 2:
        service.deploy(2, **QUICK)
    eventually(lambda: len(processes(service.load(8, 4, 5))) == 2)
    return service


def test_both_answer_and_rightly(two: Service) -> None:
    answers = two.load(200, 16, 5)
    assert statuses(answers) == {200: 200}
    assert wrong(answers, 5) == []
    assert min(processes(answers).values()) > 40
    assert len(processes(answers)) == 2


def test_what_a_step_refuses_is_refused_and_harms_nothing(two: Service) -> None:
    assert two.ask(-1).status == 400
    assert b"INPUT: is below 0" in two.ask(-1).content
    assert statuses(two.load(20, 4)) == {200: 20}


def test_the_gateways_other_routes_are_there(two: Service) -> None:
    assert [two.ask(path=path).status for path in ("/", "/healthz", "/readyz", "/metrics")] == [
        200
    ] * 4
    assert two.ask(path="/nothing").status == 404


def test_ray_has_the_metrics_of_each_replicas_triton(two: Service) -> None:
    two.load(20, 4, 5)
    name = r'ray_nv_inference_request_success\{[^}]*model="wait"[^}]*\} (\S+)'
    pattern = re.compile(name)

    def counted() -> list[float]:
        text = "".join(ray_metrics(node) for node in ray.nodes())
        return [float(count) for count in pattern.findall(text)]

    eventually(lambda: len([count for count in counted() if count > 0]) >= 2)


def load_with(service: Service, then: Any, requests: int = 400, wait_ms: float = 20) -> Any:
    """Send requests, eight at once, and do something in the middle of them. Return the answers."""
    timer = threading.Timer(0.7, then)
    timer.start()
    answers = service.load(requests, 8, wait_ms)
    timer.join()
    return answers


def test_a_replica_that_is_killed_costs_no_wrong_answer_and_is_replaced(two: Service) -> None:
    victim, _ = processes(two.load(20, 4, 5))
    triton = triton_of(victim)
    answers = load_with(two, lambda: os.kill(parent(triton), signal.SIGKILL))
    assert wrong(answers, 20) == []
    seen = statuses(answers)
    assert seen[200] >= 380, (
        seen
    )  # those in flight are reported as failed, for who asked to try again
    assert only_reported(answers), seen
    eventually(lambda: not is_alive(triton))  # its Triton does not outlive it
    eventually(lambda: len(processes(two.load(12, 4, 5)).keys() - {victim}) == 2)


def test_a_triton_that_is_killed_has_its_replica_replaced(two: Service) -> None:
    victim, _ = processes(two.load(20, 4, 5))
    answers = load_with(two, lambda: os.kill(triton_of(victim), signal.SIGKILL))
    assert wrong(answers, 20) == []
    assert statuses(answers)[200] >= 380  # it ends with its Triton, and gets no more requests
    eventually(lambda: victim not in (seen := processes(two.load(20, 4, 5))) and len(seen) == 2)
    assert statuses(two.load(50, 8, 5)) == {200: 50}


def test_a_replica_that_goes_answers_what_it_has_begun(two: Service) -> None:
    gone = triton_of(next(iter(processes(two.load(20, 4, 5)))))
    answers = load_with(two, lambda: two.deploy(1, **QUICK), 200, 100)
    assert statuses(answers) == {200: 200}
    assert wrong(answers, 100) == []
    eventually(lambda: two.replicas() == 1)
    left = processes(two.load(8, 4))
    assert len(left) == 1
    is_left = triton_of(next(iter(left))) == gone
    eventually(lambda: is_alive(gone) == is_left)


def test_what_no_place_is_left_for_is_answered_503(service: Service) -> None:
    one = {"max_ongoing_requests": 1, "max_queued_requests": 1}
    service.deploy(1, **QUICK, **one)
    eventually(lambda: service.replicas() == 1)
    answers = service.load(100, 16, 50)
    assert wrong(answers, 50) == []
    seen = statuses(answers)
    assert seen.keys() == {200, 503}
    assert seen[200] >= 2
    assert seen[503] >= 50


def test_replicas_come_with_load_and_go_without(service: Service) -> None:
    scaling = {
        "min_replicas": 1,
        "max_replicas": 2,
        "target_ongoing_requests": 2,
        "upscale_delay_s": 1,
        "downscale_delay_s": 2,
        "look_back_period_s": 2,
        "metrics_interval_s": 0.5,
    }
    service.deploy(**QUICK, autoscaling_config=scaling)
    eventually(lambda: service.replicas() == 1)
    ended = threading.Event()
    failed = []

    def load() -> None:
        while not ended.is_set():
            answers = service.load(16, 8, 50)
            failed.extend([a for a in answers if statuses([a]).keys() != {200}])

    thread = threading.Thread(target=load)
    thread.start()
    try:
        eventually(lambda: service.replicas() == 2)
        time.sleep(1)
    finally:
        ended.set()
        thread.join()
    eventually(lambda: service.replicas() == 1)
    assert failed == []
    assert statuses(service.load(20, 4)) == {200: 20}
