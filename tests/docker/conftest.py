"""A Docker engine with BuildKit, and the images that a project is built and tested with."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from docker import stand_in


def _builds(command: str) -> bool:
    """Return whether a client has BuildKit, which some have not."""
    build = [command, "build", "--quiet", "-"]
    environment = os.environ | {"DOCKER_BUILDKIT": "1"}
    tried = subprocess.run(
        build, input=b"FROM scratch\nLABEL a=b\n", capture_output=True, env=environment
    )
    return tried.returncode == 0


@pytest.fixture(scope="session", autouse=True)
def _engine() -> None:
    """Put a client that builds into the variable DOCKER, for the rest of the session and what it runs, or skip if there is none."""
    named = (
        os.environ.get("DOCKER"),
        shutil.which("docker"),
        shutil.which("docker", path="/usr/bin"),
    )
    client = next((command for command in named if command and _builds(command)), None)
    if client:
        os.environ["DOCKER"] = client
    elif os.environ.get("REQUIRE_DOCKER") == "1":
        pytest.fail("REQUIRE_DOCKER=1, and no Docker engine with BuildKit answers")
    else:
        pytest.skip("no Docker engine with BuildKit answers")


@pytest.fixture(scope="session")
def triton_image(_engine: None) -> str:
    """Return TRITON_IMAGE, NVIDIA's image if its registry answers, or the stand-in."""
    named, published = os.environ.get("TRITON_IMAGE"), "nvcr.io/nvidia/tritonserver:26.11-py3"
    if named:
        return named
    command = [os.environ["DOCKER"], "manifest", "inspect", published]
    try:
        reached = subprocess.run(command, capture_output=True, timeout=30).returncode == 0
    except subprocess.TimeoutExpired:
        reached = False
    return published if reached else stand_in.triton()


@pytest.fixture(scope="session")
def options(triton_image: str) -> Iterator[list[str]]:
    """Yield what `make image` needs on this machine, and on most others not."""
    with stand_in.pip_conf() as conf:
        bundle = [f"CA_BUNDLE={stand_in.CA_BUNDLE}"] if stand_in.CA_BUNDLE.exists() else []
        yield [f"TRITON_IMAGE={triton_image}", f"PIP_CONF={conf}", *bundle]


@pytest.fixture(scope="session")
def python_image(_engine: None) -> str:
    return stand_in.debian()


@pytest.fixture(scope="session")
def prometheus_image(_engine: None) -> str:
    return stand_in.prometheus()


@pytest.fixture(scope="session")
def grafana_image(_engine: None) -> str:
    return stand_in.grafana()
