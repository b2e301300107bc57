"""The container under test, started by compose as `make up` does.

`make test-docker` builds its image first.
"""

from __future__ import annotations

import os
import shlex

import pytest

from triton_ensemble.facts.variables import read_docker
from triton_ensemble.serve.container.compose import (
    Container,
    ContainerError,
    find,
    output,
    remedies,
)
from triton_ensemble.serve.container.settings import Settings
from triton_ensemble.testing import under_test


@pytest.fixture(scope="session", autouse=True)
def engine() -> None:
    """Skip all tests if no engine answers, or fail them if REQUIRE_DOCKER=1."""
    try:
        output(*read_docker(), "version")
    except ContainerError as error:
        if os.environ.get("REQUIRE_DOCKER") == "1":
            pytest.fail(f"REQUIRE_DOCKER=1, and no engine answers: {error}")
        pytest.skip(f"no engine answers: {error}")


@pytest.fixture(scope="session")
def settings() -> Settings:
    """Return the names and files of the project's containers."""
    return Settings.read(under_test.PROJECT)


@pytest.fixture(scope="session")
def docker_compose_command(settings: Settings) -> str:
    """Return the command that starts compose, to pytest-docker."""
    return shlex.join(settings.compose_command)


@pytest.fixture(scope="session")
def docker_compose_file(settings: Settings) -> list[str]:
    """Return the files that compose reads, to pytest-docker."""
    return [str(settings.root / file) for file in settings.compose_files]


@pytest.fixture(scope="session")
def docker_compose_project_name(settings: Settings) -> str:
    """Return the name of the compose project to pytest-docker. `make up` uses another name."""
    return f"{settings.project_name}-test"


@pytest.fixture(scope="session")
def docker_setup() -> list[str]:
    """Return the command that starts the container, to pytest-docker."""
    return ["up --detach triton"]


@pytest.fixture(scope="session")
def docker_cleanup() -> list[str]:
    """Return the command that removes it, to pytest-docker."""
    return ["down --volumes --remove-orphans"]


@pytest.fixture(scope="session")
def compose(settings: Settings, docker_compose_file: list[str]) -> tuple[str, ...]:
    """Return the command that pytest-docker uses, of whatever compose project."""
    return (*settings.compose_command, *(f"--file={file}" for file in docker_compose_file))


@pytest.fixture(scope="session")
def started(
    request: pytest.FixtureRequest, compose: tuple[str, ...], docker_compose_project_name: str
) -> Container:
    """Return Triton's container, which may not be ready yet, or fail with a line if it can't be started."""
    command = (*compose, f"--project-name={docker_compose_project_name}")
    try:
        request.getfixturevalue("docker_services")
    except (
        Exception
    ) as error:  # pytest-docker's, which has no class of its own; it leaves what was made
        output(*command, "down", "--volumes", "--remove-orphans")
        pytest.fail("\n  ".join([str(error), *remedies(str(error))]), pytrace=False)
    return find(command)


@pytest.fixture
def triton(started: Container) -> Container:
    """Return Triton's container when it is healthy, whatever the test before did to it."""
    started.wait(starting=True)
    return started
