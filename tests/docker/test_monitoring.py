"""The generated monitoring, by a real Prometheus that scrapes a real Triton."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from support import Generate, Project, run, step, succeed

from docker.stand_in import docker

KILL_LABEL = r"""
for process in /proc/[0-9]*; do
  if tr '\0' ' ' <$process/cmdline | grep -q '^/opt/.*backend_stub .*/label/'; then kill -9 ${process#/proc/}; fi
done
"""


def compose_command() -> list[str]:
    plugin = [os.environ["DOCKER"], "compose"]
    has_plugin = subprocess.run([*plugin, "version"], capture_output=True).returncode == 0
    return plugin if has_plugin else ["docker-compose"]


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    return generate(project_name="watched")


Urls = dict[str, str]


@pytest.fixture(scope="module")
def urls(project: Project, options: list[str], prometheus_image: str) -> Iterator[Urls]:
    """Yield the URLs of Triton and of Prometheus; a Python process that dies stays dead."""
    succeed(project.make("image", *options))
    compose = (
        *compose_command(),
        "--project-name=watched",
        f"--file={project / 'deploy/compose.yaml'}",
    )
    ports = {f"{name}_PORT": "0" for name in ("HTTP", "GRPC", "METRICS", "PROMETHEUS", "GRAFANA")}
    settings = {**ports, "PROMETHEUS_IMAGE": prometheus_image, "RESTART_AFTER": "0"}
    settings |= {"COMPOSE_PROFILES": "monitoring", "IMAGE": "watched"}

    def use(*command: str) -> str:
        return succeed(run(*compose, *command, cwd=project.path, **settings)).strip()

    try:
        use("up", "--detach", "triton", "prometheus")
        services = {"triton": "8000", "prometheus": "9090"}
        yield {name: f"http://{use('port', name, port)}" for name, port in services.items()}
    finally:
        use("down", "--volumes", "--remove-orphans")
        docker("image", "rm", "watched")


@pytest.fixture(scope="module")
def prometheus(urls: Urls) -> str:
    return urls["prometheus"]


def ask(url: str, path: str, **query: str) -> Any:
    with urlopen(f"{url}/api/v1/{path}?{urlencode(query)}", timeout=10) as response:
        return json.load(response)["data"]


def values(url: str, expression: str) -> list[float]:
    return [float(series["value"][1]) for series in ask(url, "query", query=expression)["result"]]


def eventually(url: str, expression: str, wanted: float, timeout: float = 120) -> None:
    """Wait until each series of an expression has about this value."""
    deadline = time.monotonic() + timeout
    while not (now := values(url, expression)) or any(abs(v - wanted) > 0.1 for v in now):
        assert time.monotonic() < deadline, f"{expression}: {now}"
        time.sleep(1)


def expressions(project: Project) -> dict[str, str]:
    dashboard = json.loads((project / "deploy/monitoring/dashboard.json").read_text())
    return {
        target["expr"].replace("$__rate_interval", "30s"): panel["title"]
        for panel in dashboard["panels"]
        for target in panel["targets"]
    }


def send_no_image(triton: str) -> None:
    image = {"name": "IMAGE", "datatype": "BYTES", "shape": [1, 1], "data": ["no image"]}
    url = f"{triton}/v2/models/watched/infer"
    with pytest.raises(HTTPError) as raised:
        urlopen(url, json.dumps({"inputs": [image]}).encode(), timeout=10)
    raised.value.close()


def test_each_panel_of_the_dashboard_has_data(
    urls: Urls, prometheus: str, project: Project
) -> None:
    """Requests are answered meanwhile, as the health check's every 5 s, and others are refused."""
    eventually(prometheus, 'up{job="triton"}', 1)
    eventually(prometheus, "sum by (step) (rate(step_process_seconds_total[30s]))", 1)
    deadline = time.monotonic() + 120
    while not values(prometheus, "rate(nv_inference_request_failure[30s]) > 0"):
        assert time.monotonic() < deadline
        send_no_image(urls["triton"])
        time.sleep(1)
    empty = [
        f"{title}: {expression}"
        for expression, title in expressions(project).items()
        if not values(prometheus, expression)
    ]
    assert [line for line in empty if "nv_inference_request_failure[30s]) > 0" not in line] == []


def test_a_python_process_that_dies_is_seen(prometheus: str) -> None:
    """Nothing else is wrong before."""
    rules = ask(prometheus, "rules")["groups"][0]["rules"]
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
    eventually(prometheus, "sum by (step) (rate(step_process_seconds_total[30s]))", 1)
    assert values(prometheus, "ALERTS") == []
    of = [
        f"--filter=label=com.docker.compose.{kind}"
        for kind in ("project=watched", "service=triton")
    ]
    docker("exec", docker("ps", "--quiet", *of), "sh", "-c", KILL_LABEL)
    eventually(prometheus, 'sum(rate(step_process_seconds_total{step="label"}[30s]))', 0)
    eventually(prometheus, 'sum(rate(step_process_seconds_total{step="preprocess"}[30s]))', 1)
    eventually(prometheus, 'sum(ALERTS{alertname="TritonStepDied", alertstate="firing"})', 1)


RULE_TESTS = """
rule_files: [alerts.yml]
evaluation_interval: 15s
tests:
  - name: quiet
    interval: 15s
    input_series:
      - {series: 'up{job="triton"}', values: 1x60}
      - {series: 'nv_inference_request_success{model="ensemble"}', values: 0+100x60}
      - {series: 'nv_inference_request_failure{model="ensemble", reason="OTHER"}', values: 0+100x60}
      - {series: 'nv_inference_request_failure{model="a", reason="BACKEND"}', values: 0+1x60}
      - {series: 'nv_inference_request_success{model="a"}', values: 0+100x60}
      - {series: 'step_failed_total{step="a"}', values: 0x60}
      - {series: 'nv_inference_pending_request_count{model="a"}', values: 0 40 0 40 0 40 0 40x50}
      - {series: 'step_process_seconds_total{step="a"}', values: 0+30x60}
    alert_rule_test:
      - {eval_time: 2m, alertname: TritonQueueGrows}
      - {eval_time: 10m, alertname: TritonErrors}
      - {eval_time: 10m, alertname: TritonModelFails}
      - {eval_time: 10m, alertname: TritonStepDied}
      - {eval_time: 10m, alertname: TritonDown}
  - name: trouble
    interval: 15s
    input_series:
      - {series: 'up{job="triton"}', values: 0x60}
      - {series: 'nv_inference_request_success{model="ensemble"}', values: 0+100x60}
      - {series: 'nv_inference_request_failure{model="ensemble", reason="OTHER"}', values: 0x60}
      - {series: 'step_failed_total{step="a"}', values: 0+15x60}
      - {series: 'nv_inference_request_success{model="a"}', values: 100x60}
      - {series: 'nv_inference_request_failure{model="a", reason="BACKEND"}', values: 0+5x60}
      - {series: 'nv_inference_pending_request_count{model="a"}', values: 40x60}
      - {series: 'step_process_seconds_total{step="a"}', values: 0+30x20 600+15x40}
    alert_rule_test:
      - eval_time: 10m
        alertname: TritonDown
        exp_alerts: [{exp_labels: {job: triton}, exp_annotations: {summary: Triton does not answer.}}]
      - eval_time: 10m
        alertname: TritonQueueGrows
        exp_alerts:
          - exp_labels: {model: a}
            exp_annotations: {summary: "a: for two minutes 40 requests or more have waited; it needs more instances, or another server."}
      - eval_time: 10m
        alertname: TritonErrors
        exp_alerts:
          - exp_annotations: {summary: "20% of the requests fail; Triton's log says why."}
      - eval_time: 10m
        alertname: TritonModelFails
        exp_alerts:
          - exp_labels: {model: a}
            exp_annotations: {summary: "a: every request fails; the server needs a restart."}
      - eval_time: 10m
        alertname: TritonStepDied
        exp_alerts:
          - exp_labels: {step: a}
            exp_annotations: {summary: "a: a Python process has died; Triton does not start it anew."}
"""


def promtool(image: str, folder: Path, *command: str) -> str:
    folder.chmod(0o755)
    mount = f"--volume={folder}:/rules:ro"
    tool = ("run", "--rm", mount, "--workdir=/rules", "--entrypoint=promtool", image)
    return docker(*tool, *command)


def test_alerts_fire_in_trouble_and_are_quiet_otherwise(
    generate: Generate, prometheus_image: str, tmp_path: Path
) -> None:
    tensors, steps = {"A": "FP32[1]", "B": "FP32[1]"}, [step("a", ["A"], ["B"])]
    project = generate(ensemble_name="ensemble", tensors=tensors, steps=steps)
    for name in ("alerts.yml", "prometheus.yml"):
        (tmp_path / name).write_text((project / f"deploy/monitoring/{name}").read_text())
    (tmp_path / "tests.yml").write_text(RULE_TESTS)
    assert "SUCCESS" in promtool(prometheus_image, tmp_path, "check", "config", "prometheus.yml")
    assert "SUCCESS" in promtool(prometheus_image, tmp_path, "test", "rules", "tests.yml")
    assert yaml.safe_load(RULE_TESTS)["tests"]
