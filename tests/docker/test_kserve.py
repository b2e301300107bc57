"""The containers of deploy/kserve as KServe would run them: the image without models, and these at /mnt/models, read-only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from support import Generate, Project, succeed

from docker.checkouts import image_of
from docker.pods import ARBITRARY, passes, running, started
from docker.stand_in import docker


@pytest.fixture(scope="module")
def project(generate: Generate, options: list[str]) -> Iterator[Project]:
    project = generate(extras=["kserve"])
    succeed(project.make("image", "MODELS=mounted", *options))
    yield project
    docker("image", "rm", image_of(project))


def pod(project: Project, protocol: str) -> dict[str, Any]:
    """Return what the runtime for a protocol makes of a pod."""
    name = "runtime-grpc.yaml" if protocol == "grpc-v2" else "runtime.yaml"
    runtime: dict[str, Any] = yaml.safe_load((project / "deploy/kserve/base" / name).read_text())
    assert protocol in runtime["spec"]["protocolVersions"]
    pod: dict[str, Any] = runtime["spec"]
    return pod


@pytest.mark.parametrize(
    ("protocol", "port", "scheme"), [("v2", "http1", "http"), ("grpc-v2", "h2c", "grpc")]
)
@pytest.mark.parametrize("user", ["1000:1000", ARBITRARY])
def test_it_serves_the_models_that_are_mounted(
    project: Project, user: str, protocol: str, port: str, scheme: str
) -> None:
    spec = pod(project, protocol)
    http = "--publish=127.0.0.1:0:8000"  # for the probe at its number, which gRPC's runtime does not name
    models = f"--volume={project / 'model_repository'}:/mnt/models:ro"
    with running(spec, image_of(project), user, models, http) as (name, ports):
        assert started(spec, docker("port", name, "8000").splitlines()[0])
        printed = succeed(project.make("infer", TRITON_URL=f"{scheme}://{ports[port]}"))
        assert "LABEL: 7" in printed
        assert passes(spec, name, "readinessProbe")
        assert passes(spec, name, "livenessProbe")
