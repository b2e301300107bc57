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

import alerts
import pytest
from support import Generate, Project, run, succeed

from docker.checkouts import KILL_LABEL
from docker.stand_in import docker


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
    """Yield the URLs of Triton and of Prometheus. A Python process that dies stays dead."""
    succeed(project.make("image", *options, "IMAGE=watched"))
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
        target["expr"].replace("$__rate_interval", "30s").replace("$job", "triton"): panel["title"]
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
    # No model has failed: what a step refuses is an answer of its model.
    assert [line for line in empty if not line.startswith("Errors of models")] == []


def test_a_python_process_that_dies_is_seen(prometheus: str) -> None:
    """Nothing else is wrong before."""
    rules = ask(prometheus, "rules")["groups"][0]["rules"]
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
    eventually(prometheus, "sum by (step) (rate(step_process_seconds_total[30s]))", 1)
    # On a busy machine an alert may be pending between two scrapes.
    eventually(prometheus, "count(ALERTS) or vector(0)", 0)
    of = [
        f"--filter=label=com.docker.compose.{kind}"
        for kind in ("project=watched", "service=triton")
    ]
    docker("exec", docker("ps", "--quiet", *of), "sh", "-c", KILL_LABEL)
    eventually(prometheus, 'sum(rate(step_process_seconds_total{step="label"}[30s]))', 0)
    eventually(prometheus, 'sum(rate(step_process_seconds_total{step="preprocess"}[30s]))', 1)
    fires = 'sum(ALERTS{alertname="TritonStepDied", alertstate="firing", process="label_0_0"})'
    eventually(prometheus, fires, 1)


def promtool(image: str, folder: Path, *command: str) -> str:
    folder.chmod(0o755)
    mount = f"--volume={folder}:/rules:ro"
    tool = ("run", "--rm", mount, "--workdir=/rules", "--entrypoint=promtool", image)
    return docker(*tool, *command)


def test_the_prometheus_that_is_run_reads_the_rules(
    generate: Generate, prometheus_image: str, tmp_path: Path
) -> None:
    """The cases of ../alerts.py, by the promtool of its image."""
    project = alerts.ensemble(generate)
    for name in ("alerts.yml", "prometheus.yml"):
        (tmp_path / name).write_text((project / f"deploy/monitoring/{name}").read_text())
    (tmp_path / "tests.yml").write_text(alerts.unit_tests(alerts.CASES, alerts.OF_ENSEMBLE))
    assert "SUCCESS" in promtool(prometheus_image, tmp_path, "check", "config", "prometheus.yml")
    assert "SUCCESS" in promtool(prometheus_image, tmp_path, "test", "rules", "tests.yml")
