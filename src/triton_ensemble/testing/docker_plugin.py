"""The container under test, started by compose as `make up` does; `make test-docker` builds its image first."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from triton_ensemble.container.compose import DOCKER, Container, ContainerError, find, output
from triton_ensemble.project import ROOT

PROJECT = "{{ graph.container.name }}-test"
COMPOSE = os.environ.get("COMPOSE", f"{DOCKER} compose")
FILES = os.environ.get("COMPOSE_FILES", "deploy/compose.yaml").split()


@pytest.fixture(scope="session", autouse=True)
def _engine() -> None:
    try:
        output(DOCKER, "version")
    except ContainerError as error:
        if os.environ.get("REQUIRE_DOCKER") == "1":
            pytest.fail(f"REQUIRE_DOCKER=1, and no engine answers: {error}")
        pytest.skip(f"no engine answers: {error}")


@pytest.fixture(scope="session")
def docker_compose_command() -> str:
    return COMPOSE


@pytest.fixture(scope="session")
def docker_compose_file() -> list[str]:
    return [str(ROOT / file) for file in FILES]


@pytest.fixture(scope="session")
def docker_compose_project_name() -> str:
    return PROJECT


@pytest.fixture(scope="session")
def docker_setup() -> list[str]:
    return ["up --detach triton"]


@pytest.fixture(scope="session")
def docker_cleanup() -> list[str]:
    return ["down --volumes --remove-orphans"]


@pytest.fixture(scope="session")
def compose(docker_compose_file: list[str]) -> tuple[str, ...]:
    """The command that pytest-docker uses, of whatever project."""
    return (*COMPOSE.split(), *(f"--file={file}" for file in docker_compose_file))


@pytest.fixture(scope="session")
def started(docker_services: object, compose: tuple[str, ...]) -> Container:
    return find((*compose, f"--project-name={PROJECT}"))


@pytest.fixture
def triton(started: Container) -> Container:
    """Healthy, whatever the test before did to it."""
    started.wait(starting=True)
    return started


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Iterator[None]:
    """Shows the container's log with each test that needed it and failed."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    container = item.funcargs.get("started")
    if report.failed and isinstance(container, Container):
        report.sections.append(("Triton's log", container.log()))
