"""The gateway in its own image: `make up` publishes it, and Triton to nobody else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.request import urlopen

import pytest
from gateway_service import Answer, form
from support import Generate, Project, succeed

from docker.checkouts import ALONE, compose_project, image_of, left
from docker.stand_in import docker

KEY = "not-in-any-list-of-processes"


class Up:
    """The project that `make up` serves with some variables, and the addresses that it printed."""

    def __init__(self, project: Project, given: list[str]) -> None:
        self.project, self.given = project, given
        printed = succeed(project.make("up", *given))
        self.addresses = re.findall(r"^\w+://(\S+?)(?: (\w+))?$", printed, re.M)

    def post(self, key: str) -> Answer:
        """Send a sample's image to /predict."""
        body = form(("IMAGE", "7.jpg", (self.project / "samples/digit-7.jpg").read_bytes()))
        kind = {"Content-Type": 'multipart/form-data; boundary="a boundary of parts"'}
        connection = HTTPConnection(self.addresses[0][0], timeout=60)
        connection.request("POST", "/predict", body, kind | {"X-API-Key": key})
        answer = Answer(connection.getresponse())
        connection.close()
        return answer

    def container(self, service: str) -> dict[str, Any]:
        kinds = {"project": compose_project(self.project), "service": service}
        labels = [f"--filter=label=com.docker.compose.{kind}={n}" for kind, n in kinds.items()]
        return dict(json.loads(docker("inspect", docker("ps", "--quiet", *labels)))[0])


@pytest.fixture(scope="module")
def up(
    generate: Generate,
    options: list[str],
    python_image: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Up]:
    project = generate(extras=["gateway"])
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"{KEY}\n")
    given = [f"PYTHON_IMAGE={python_image}", "GATEWAY_PORT=0", f"GATEWAY_API_KEYS_FILE={keys}"]
    try:
        yield Up(project, [*options, *ALONE, *given])
    finally:
        succeed(project.make("down", "ARGS=--volumes"))
        assert left(compose_project(project)) == []
        docker("image", "rm", image_of(project), image_of(project).replace(":", "-gateway:"))


def test_it_answers_who_has_a_key(up: Up) -> None:
    answer = up.post(KEY)
    assert (answer.status, answer.json()["LABEL"]) == (200, [["7"]])
    assert up.post("guessed").status == 401
    assert KEY not in json.dumps(up.container("gateway"))


def test_nothing_else_is_published(up: Up) -> None:
    assert [service for _, service in up.addresses] == ["gateway"]
    assert not up.container("triton")["HostConfig"]["PortBindings"]


def test_it_runs_as_nobody_in_particular_and_writes_nothing(up: Up) -> None:
    gateway = up.container("gateway")
    host = gateway["HostConfig"]
    assert (host["ReadonlyRootfs"], host["CapDrop"], gateway["Config"]["User"]) == (
        True,
        ["ALL"],
        "1000:1000",
    )
    assert gateway["State"]["Health"]["Status"] == "healthy"
    assert docker("exec", gateway["Id"], "find", "/opt", "/usr", "-name", "*tritonserver*") == ""


def test_it_ends_at_once_when_nobody_asks(up: Up) -> None:
    """The next test starts it anew. One that is killed has 137."""
    gateway = up.container("gateway")["Id"]
    docker("stop", gateway)
    state = json.loads(docker("inspect", gateway))[0]["State"]
    assert state["ExitCode"] == 0, docker("logs", gateway)


def test_tritons_ports_are_there_where_somebody_asks(up: Up) -> None:
    more = Up(up.project, [*up.given, "TRITON_PORTS=1"])
    [http, *_] = (address for address, _ in more.addresses)
    with urlopen(f"http://{http}/v2/health/ready", timeout=10) as response:
        assert response.status == 200
    assert [service for _, service in more.addresses] == ["", "", "", "gateway"]
