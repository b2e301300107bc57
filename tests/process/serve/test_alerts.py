"""The alert rules and the dashboard: their cases by promtool, and what Triton's metrics say in such a case."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import alerts
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc  # type: ignore[import-untyped]
import yaml
from step_code import step_code
from support import PIPELINES, UNUSUAL, Generate, Project, step

from triton_ensemble.serve.local.local_triton import LocalTriton

needs_promtool = pytest.mark.skipif(
    not shutil.which("promtool"), reason="promtool is not installed: apt-get install prometheus"
)


def promtool(folder: Path, *arguments: str) -> None:
    command = ["promtool", *arguments]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
@needs_promtool
@pytest.mark.parametrize(
    ("project", "cases", "metrics"),
    [
        pytest.param(alerts.ensemble, alerts.CASES, alerts.OF_ENSEMBLE, id="ensemble"),
        pytest.param(alerts.with_gateway, alerts.CASES_OF_GATEWAY, alerts.OF_GATEWAY, id="gateway"),
        pytest.param(
            alerts.one_model, alerts.CASES_OF_ONE_MODEL, alerts.OF_ONE_MODEL, id="one model"
        ),
    ],
)
def test_alerts_fire_in_trouble_and_clear_after_it(
    generate: Generate,
    project: Callable[[Generate], Project],
    cases: list[alerts.Case],
    metrics: dict[str, str],
) -> None:
    """No other alert fires, and tests/docker/ asks the promtool of the container."""
    folder = project(generate) / "deploy/monitoring"
    (folder / "tests.yml").write_text(alerts.unit_tests(cases, metrics))
    promtool(folder, "test", "rules", "tests.yml")


@needs_promtool
@pytest.mark.parametrize(
    "name", ["default", "one model", "decoupled", "sequence", "ONNX without an ensemble"]
)
def test_rules_of_each_kind_of_project_are_sound(generate: Generate, name: str) -> None:
    folder = generate(**(PIPELINES | UNUSUAL)[name]) / "deploy/monitoring"
    promtool(folder, "check", "rules", "alerts.yml")


# By what happens: answers a sample, microseconds of their queue a sample, requests that wait; then what is measured.
QUEUES: dict[str, tuple[str, str, str, float]] = {
    "busy": (alerts.steady(100), alerts.steady(200_000), alerts.gauge((5, 0), (31, 0)), 2000),
    "idle": (alerts.steady(0), alerts.steady(0), alerts.gauge((36, 0)), 0),
    "stuck": (alerts.steady(0), alerts.steady(0), alerts.gauge((36, 60)), 6e10),
    "one answer in ten seconds": (
        alerts.steady(0.5),
        alerts.steady(0),
        alerts.gauge((36, 60)),
        6e8,
    ),
    "a request waits at times": (alerts.steady(1), alerts.steady(0), "0 3 0 1 0x428", 0),
    "after a restart": (
        f"{alerts.counter((20, 100))} stale {alerts.counter((15.9, 100))}",
        f"{alerts.counter((20, 200_000))} stale {alerts.counter((15.9, 200_000))}",
        f"{alerts.gauge((20, 3))} stale {alerts.gauge((15.9, 0))}",
        2000,
    ),
}


@needs_promtool
def test_autoscaling_sees_requests_that_are_stuck(generate: Generate, tmp_path: Path) -> None:
    project = generate(extras=["kubernetes", "monitoring"])
    keda = project / "deploy/kubernetes/components/keda/keda.yaml"
    query = yaml.safe_load(keda.read_text())["spec"]["triggers"][0]["metadata"]["query"]
    labels = 'job="image-classification", namespace="n", pod="p", model="label", version="1"'
    names = ("request_success", "queue_duration_us", "pending_request_count")
    tests = [
        {
            "interval": "5s",
            "name": name,
            "input_series": [
                {"series": f"nv_inference_{metric}{{{labels}}}", "values": values}
                for metric, values in zip(names, series, strict=True)
            ],
            "promql_expr_test": [
                {
                    "expr": f"round({query})",
                    "eval_time": "35m",
                    "exp_samples": [{"labels": "{}", "value": expected}],
                }
            ],
        }
        for name, (*series, expected) in QUEUES.items()
    ]
    (tmp_path / "tests.yml").write_text(yaml.safe_dump({"tests": tests}))
    promtool(tmp_path, "test", "rules", "tests.yml")


def test_each_alert_says_how_severe_it_is(generate: Generate) -> None:
    groups = [rules_of(alerts.ensemble(generate))[0], rules_of(alerts.with_gateway(generate))[1]]
    for group, cases in zip(groups, (alerts.CASES, alerts.CASES_OF_GATEWAY), strict=True):
        rules = [rule for rule in group if "alert" in rule]
        assert {rule["labels"]["severity"] for rule in rules} == {"critical", "warning"}
        assert all(rule["for"] for rule in rules if rule["alert"] != "TritonRestarts")
        fired = {name for case in cases for names in case.fires.values() for name in names.split()}
        assert {rule["alert"] for rule in rules} == fired


def rules_of(project: Project) -> list[list[dict[str, Any]]]:
    """Return the rules of each group."""
    text = (project / "deploy/monitoring/alerts.yml").read_text()
    return [group["rules"] for group in yaml.safe_load(text)["groups"]]


def test_the_dashboard_shows_what_the_rules_record(generate: Generate) -> None:
    for project in (alerts.ensemble(generate), alerts.one_model(generate)):
        dashboard = (project / "deploy/monitoring/dashboard.json").read_text()
        recorded = {rule["record"] for rule in rules_of(project)[0] if "record" in rule}
        assert set(re.findall(r"triton:\w+:rate2m", dashboard)) == recorded


# What the cases say that Triton's metrics do, asked of a real one.

SLOW = step_code(
    """
def __call__(self, A):
    if A[0, 0] == 1:
        raise InvalidRequest("1")
    if A[0, 0] == 2:
        raise RuntimeError
    time.sleep(0.3)
    return {"B": A}
""",
    "import time",
    "from triton_step import InvalidRequest",
)


class Watched:
    """A Triton that serves step a, of whose requests three may wait, and step b, and its metrics since the last look."""

    def __init__(self, triton: LocalTriton) -> None:
        self.triton = triton
        self.seen = self.metrics()

    def metrics(self) -> dict[str, float]:
        with urlopen(self.triton.metrics_url, timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {series.replace(',version="1"', ""): float(value) for series, value in pairs}

    def more(self, of: str) -> dict[str, float]:
        """Return by how much which series of some metrics have grown."""
        time.sleep(1.5)  # steps tell twice a second
        before, self.seen = self.seen, self.metrics()
        grown = {series: value - before.get(series, 0) for series, value in self.seen.items()}
        return {series: by for series, by in grown.items() if by and re.match(of, series)}

    def ask(self, value: float) -> int:
        """Return the status of an answer."""
        tensor = {"name": "A", "datatype": "FP32", "shape": [1, 1], "data": [value]}
        url = f"{self.triton.http_url}/v2/models/{alerts.E}/infer"
        try:
            with urlopen(
                Request(url, json.dumps({"inputs": [tensor]}).encode()), timeout=30
            ) as answer:
                return int(answer.status)
        except HTTPError as error:
            with error:
                return error.code


@pytest.fixture(scope="module")
def watched(generate: Generate) -> Iterator[Watched]:
    few = {"default_queue_policy": {"max_queue_size": 3}}
    steps = [step("a", ["A"], ["B"], fuse=False, batching=few), step("b", ["B"], ["C"], fuse=False)]
    tensors = dict.fromkeys("ABC", "FP32[1]")
    project = generate(ensemble_name=alerts.E, tensors=tensors, steps=steps, max_batch_size=4)
    (project / "steps/a.py").write_text(SLOW)
    assert project.make("repository").returncode == 0
    with LocalTriton(project / "model_repository", alerts.E) as triton:
        yield Watched(triton)


COUNTS = "nv_inference_request_failure|step_(rejected|failed)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "counter"), [(1, "step_rejected_total"), (2, "step_failed_total")]
)
def test_a_step_that_answers_with_an_error(watched: Watched, value: float, counter: str) -> None:
    watched.more(COUNTS)
    assert watched.ask(value) == (400 if value == 1 else 500)
    assert watched.more(COUNTS) == {
        alerts.failure(alerts.E, "OTHER"): 2,
        f'{counter}{{model="a",step="a"}}': 1,
    }


@pytest.mark.slow
def test_a_full_queue(watched: Watched) -> None:
    watched.more(COUNTS)
    with ThreadPoolExecutor(30) as pool:
        statuses = [pool.submit(watched.ask, 0) for _ in range(30)]
        time.sleep(0.15)
        assert watched.metrics()['nv_inference_pending_request_count{model="a"}'] == 3
        refused = [status.result() for status in statuses].count(503)
    assert refused > 20
    assert watched.more(COUNTS) == {alerts.failure(alerts.E, "OTHER"): 2 * refused}


@pytest.mark.slow
def test_a_cancelled_request(watched: Watched) -> None:
    watched.more(COUNTS)
    tensor = triton_grpc.InferInput("A", [1, 1], "FP32")
    tensor.set_data_from_numpy(np.zeros((1, 1), np.float32))
    with triton_grpc.InferenceServerClient(
        watched.triton.grpc_url.removeprefix("grpc://")
    ) as client:
        call = client.async_infer(alerts.E, [tensor], lambda result, error: None)
        time.sleep(0.15)
        call.cancel()
    assert watched.more(COUNTS) == {
        alerts.failure(alerts.E, "OTHER"): 2,
        alerts.failure("b", "CANCELED"): 1,
    }


@pytest.mark.slow
def test_a_process_that_has_died(watched: Watched) -> None:
    """It is the last test of this server."""
    lived = 'step_process_seconds_total{model="a",process="a_0_0",step="a"}'
    assert watched.more("step_process")[lived] > 0
    told = watched.seen[lived]
    # A process that is killed while it tells a metric leaves a lock in Triton's memory, which ends Triton:
    # https://github.com/triton-inference-server/server/issues/8882. It tells twice a second.
    end = time.monotonic() + 30
    while watched.metrics()[lived] == told:
        assert time.monotonic() < end
        time.sleep(0.02)
    time.sleep(0.1)
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        command = path.read_text().replace("\0", " ")
        if (
            "/a/1/model.py" in command
            and watched.triton._id in command
            and "backend_stub" in command
        ):
            os.kill(int(path.parent.name), signal.SIGKILL)
    watched.more("step_process")
    assert lived not in watched.more("step_process")
    watched.more(COUNTS)
    assert watched.ask(0) == 500
    assert watched.more(COUNTS) == {
        alerts.failure(alerts.E, "OTHER"): 2,
        alerts.failure("a", "BACKEND"): 1,
    }
