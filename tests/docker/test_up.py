"""`make up` on a real engine: what it starts, with which limits and secrets, and what it says where that fails."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from support import Generate, Project, succeed

from docker.checkouts import ALONE, KILL_LABEL, compose_project, image_of, left, serving
from docker.stand_in import docker

MONITORED = (*ALONE[:3], "PROMETHEUS_PORT=0", "GRAFANA_PORT=0")
KEY = "not-in-any-list-of-processes"


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    return generate(project_name="upped")


@pytest.fixture
def monitoring(prometheus_image: str, grafana_image: str) -> list[str]:
    """Return what `make up` needs for the stand-ins of Prometheus and Grafana."""
    return [f"PROMETHEUS_IMAGE={prometheus_image}", f"GRAFANA_IMAGE={grafana_image}", *MONITORED]


@pytest.fixture(autouse=True)
def _down(project: Project) -> Iterator[None]:
    yield
    succeed(project.make("down", "ARGS=--volumes"))
    assert left(compose_project(project)) == []


def container(project: Project, service: str = "triton") -> dict[str, Any]:
    """Return what `docker inspect` says of a service's container."""
    kinds = {"project": compose_project(project), "service": service}
    labels = [f"--filter=label=com.docker.compose.{kind}={name}" for kind, name in kinds.items()]
    return dict(json.loads(docker("inspect", docker("ps", "--all", "--quiet", *labels)))[0])


def test_up_waits_for_prometheus_and_grafana(
    project: Project, options: list[str], monitoring: list[str]
) -> None:
    """Each answers when the command ends."""
    printed = succeed(project.make("up", *options, *monitoring))
    addresses = re.findall(r"^(http://\S+) (prometheus|grafana)$", printed, re.M)
    paths = {"prometheus": "-/ready", "grafana": "api/health"}
    assert [service for _, service in addresses] == [*paths]
    for url, service in addresses:
        with urlopen(f"{url}/{paths[service]}", timeout=5) as response:
            assert response.status == 200


def test_up_names_the_service_that_ends_and_its_reason(
    project: Project, options: list[str], monitoring: list[str]
) -> None:
    """Prometheus refuses its file. Triton goes on, and Prometheus is not started again and again."""
    config = project / "deploy/monitoring/prometheus.yml"
    before = config.read_text()
    config.write_text("scrape_configs: none of a list\n")
    try:
        run = project.make("up", *options, *monitoring)
    finally:
        config.write_text(before)
    assert run.returncode != 0
    [line] = [line for line in run.stderr.splitlines() if " is restarting" in line]
    assert re.match("prometheus is restarting.*cannot unmarshal.*; log: .*docker logs", line)
    assert container(project, "prometheus")["State"]["Status"] == "exited"
    assert container(project)["State"]["Health"]["Status"] == "healthy"


def test_memory_that_is_too_small_is_named(project: Project, options: list[str]) -> None:
    run = project.make("up", *options, *ALONE, "MEMORY=40m")
    assert run.returncode != 0
    assert re.search("^triton is .*: out of memory; .*MEMORY=16g; log: ", run.stderr, re.M)


def test_a_server_whose_process_is_killed_is_replaced_in_seconds(
    project: Project, options: list[str]
) -> None:
    """Expect no wait for the 30 s in which Triton can't unload the model of a dead process."""
    succeed(project.make("up", *options, *ALONE))
    docker("exec", container(project)["Id"], "sh", "-c", KILL_LABEL)
    killed = time.monotonic()
    while not container(project)["RestartCount"]:
        assert time.monotonic() - killed < 25
        time.sleep(0.5)


def index(url: str, **headers: str) -> int:
    """Ask for the repository's index, and return the status."""
    request = Request(f"{url}/v2/repository/index", b"{}", headers)
    try:
        with urlopen(request, timeout=10) as response:
            return int(response.status)
    except HTTPError as error:
        with error:
            return error.code


def hidden_keys(project: Project) -> list[str]:
    """Return what the list of processes shows of the key, which is twice in Triton's command line."""
    listed = docker("top", container(project)["Id"])
    assert "tritonserver --model-repository" in listed
    assert "defunct" not in listed
    return re.findall(r":admin-key\S*", listed)


def test_limits_and_the_key_of_administrators_are_as_they_are_set(
    project: Project, options: list[str], tmp_path: Path
) -> None:
    """The key opens the APIs, and neither `ps` nor `docker inspect` has it."""
    limits = ("MEMORY=1g", "PIDS=1234", "TMP_SIZE=48m", "SHM_SIZE=80m")
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    with serving(project, *options, *limits, f"ADMIN_KEY_FILE={file}") as urls:
        triton = container(project)
        host = triton["HostConfig"]
        assert (host["Memory"], host["PidsLimit"], host["ShmSize"]) == (2**30, 1234, 80 * 2**20)
        assert docker("exec", triton["Id"], "df", "-m", "--output=size", "/tmp").split()[-1] == "48"
        key = {"admin-key": KEY}
        assert (index(urls["http"]), index(urls["http"], **key)) == (403, 200)
        assert KEY not in json.dumps(triton)
        assert hidden_keys(project) == [":admin-key="] * 2


def test_there_are_limits_and_a_key_unasked(project: Project, options: list[str]) -> None:
    machine = int(docker("info", "--format={{.MemTotal}}"))
    with serving(project, *options):
        host = container(project)["HostConfig"]
        assert machine / 2 < host["Memory"] < machine
        assert host["PidsLimit"] > 0
        assert "size=" in host["Tmpfs"]["/tmp"]
        assert hidden_keys(project) == [":admin-key="] * 2


def test_a_key_that_cannot_be_read_is_named(
    project: Project, options: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(0o600)
    run = project.make("up", *options, *ALONE, f"ADMIN_KEY_FILE={file}")
    assert run.returncode != 0
    line = "triton is .*: /run/secrets/admin-key: user 1000 can't read the key of administrators: "
    assert re.search(line, run.stderr)


def test_a_checkout_under_umask_077_serves(
    project: Project, options: list[str], monitoring: list[str]
) -> None:
    """Containers read what they mount as users of their own, and so does a build."""
    succeed(project.run("chmod", "-R", "go=", "."))
    for kind in ("copied", "mounted"):
        up = project.make_command("up", *options, *monitoring, f"MODELS={kind}")
        succeed(project.run("sh", "-c", 'umask 077; exec "$@"', "sh", *up))


def test_a_machine_without_gpus_is_told_what_to_write(
    generate: Generate, options: list[str]
) -> None:
    project = generate(project_name="with-gpus", gpu_count=2)
    line = "without a GPU: add GPUS=0"
    try:
        up = project.make("up", *options, *ALONE)
        assert up.returncode != 0
        assert line in up.stderr
        tests = project.make("test-docker", *options, PYTEST_ADDOPTS="-x")
        assert tests.returncode != 0
        assert line in tests.stdout
        assert "Traceback" not in tests.stdout + up.stderr
        assert left(f"{compose_project(project)}-test") == []
    finally:
        succeed(project.make("down", "ARGS=--volumes"))
    docker("image", "rm", image_of(project))
