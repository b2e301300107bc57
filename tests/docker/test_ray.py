"""The image of a Ray node, on that of the project: what is in it, and its application by Ray Serve."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support import Generate, succeed

from docker.stand_in import docker

IMAGE = "triton-template-tests-ray:1"
TEST = "RAY_AUTH_MODE=disabled python3 -m triton_ensemble ray --port 0 --replicas 1 --test"


@pytest.fixture(scope="module")
def image(generate: Generate, options: list[str]) -> Iterator[str]:
    project = generate(extras=["ray"])
    succeed(
        project.make("ray-image", *options, "IMAGE=triton-template-tests:1", f"RAY_IMAGE={IMAGE}")
    )
    yield IMAGE
    docker("image", "rm", IMAGE, "triton-template-tests:1")


def test_it_has_what_a_node_needs_and_no_rights(image: str) -> None:
    config: dict[str, Any] = json.loads(docker("inspect", image))[0]["Config"]
    assert (config["User"], config["WorkingDir"], config["Entrypoint"]) == (
        "1000:1000",
        "/opt",
        None,
    )
    imported = "import gateway.app, tritonclient.grpc, triton_ensemble.deploy.ray.settings as s; "
    imported += "from triton_ensemble.facts.project import Project; from pathlib import Path; "
    imported += "print(s.read(Project.load(Path.cwd()))['applications'][0]['import_path'])"
    command = f"PYTHONPATH=src:$PYTHONPATH python3 -c {imported!r}"
    printed = docker("run", "--rm", image, "sh", "-c", f"{command}; id -u; ls /opt")
    path, user, *files = printed.split()
    assert (path, user) == ("triton_ensemble.deploy.ray.replica:application", "1000")
    assert {"deploy", "gateway", "ray", "samples", "serve.sh", "src", "toolkit", "vendor"} <= {
        *files
    }


def test_its_replica_answers_the_samples_by_the_images_triton(image: str) -> None:
    rights = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges")
    node = ("--rm", *rights, "--tmpfs=/tmp:exec,mode=1777", "--shm-size=1g", image, "sh", "-c")
    printed = docker("run", *node, f"{TEST}; grep -rh 'this replica:' /tmp/ray/session_latest/logs")
    assert [line for line in printed.splitlines() if line.endswith(": answered")]
    assert "the Triton of this replica: the image's" in printed
