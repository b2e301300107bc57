"""The container that answers make: base image, flags, shared memory, and the files that say so. Its tests on an engine are in docker/."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import yaml
from support import PIPELINES, UNUSUAL, Generate, Project, call, succeed, validate

from triton_ensemble.serve.container import imports


@pytest.mark.parametrize("name", PIPELINES | UNUSUAL)
def test_compose_files_keep_to_the_specification(generate: Generate, name: str) -> None:
    """Docker's compose plugin checks them, and docker/ has the older docker-compose read them too."""
    project = generate(**{**(PIPELINES | UNUSUAL)[name], "gpu_count": 2})
    files = sorted((project / "deploy").glob("compose*.yaml"))
    assert len(files) == 3
    validate("compose-spec", *files)
    gpu = yaml.safe_load((project / "deploy/compose.gpu.yaml").read_text())
    reservations = gpu["services"]["triton"]["deploy"]["resources"]["reservations"]
    assert reservations["devices"] == [{"driver": "nvidia", "count": 2, "capabilities": ["gpu"]}]


@pytest.mark.parametrize("name", PIPELINES | UNUSUAL)
def test_the_script_of_the_image_is_sound(generate: Generate, name: str) -> None:
    project = generate(**(PIPELINES | UNUSUAL)[name])
    succeed(project.run("sh", "-n", "deploy/serve.sh"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["default", "image in one process", "steps in one process"])
def test_steps_are_imported_in_the_build(generate: Generate, name: str) -> None:
    """It is a check in the image, which names what can't be imported."""
    project = generate.complete(**(PIPELINES | UNUSUAL)[name])
    check = (sys.executable, imports.__file__, "model_repository")
    assert succeed(project.run(*check)) == ""
    steps = sorted(project.path.glob("model_repository/*/1/steps/*.py"))
    shared = ("images", "labels")
    model = next(path for path in steps if path.stem not in shared)
    model.write_text("import nowhere\n")
    run = project.run(*check)
    assert run.returncode == 1
    assert (
        "ModuleNotFoundError: No module named 'nowhere'\nPackages go into `requirements`"
        in run.stdout
    )


def test_down_without_an_engine_is_one_line(generate: Generate, tmp_path: Path) -> None:
    """The older docker-compose would answer with a traceback."""
    engine = "Cannot connect to the Docker daemon at unix:///x.sock. Is the docker daemon running?"
    for name, text in {
        "docker": engine,
        "docker-compose": "Traceback (most recent call last):",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{text}' >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    down = generate().make("down", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert [line for line in down.stderr.splitlines() if not line.startswith("make: ")] == [engine]


@pytest.mark.parametrize("command", ["image", "up", "down"])
def test_a_program_that_is_not_there_is_one_line(default_project: Project, command: str) -> None:
    said = call(default_project, command, DOCKER="nodocker")
    assert (said.status, said.err) == (2, "there is no nodocker; install Docker with compose\n")


def test_make_passes_on_what_its_command_line_names(default_project: Project) -> None:
    """Options have the words that a shell would read, with the variables that they name."""
    options = "DOCKER_OPTIONS=--label \"a=$$WHAT\" --tag 'b c'"
    built = succeed(
        default_project.make("image", "DOCKER=echo", "MODELS=mounted", options, WHAT="x y")
    )
    [line] = [line for line in built.splitlines() if line.startswith("build ")]
    assert " --target mounted " in line
    assert line.endswith("--label a=x y --tag b c .")
    refused = default_project.make("image", "MODELS=none")
    assert "MODELS is copied or mounted, not none\n" in refused.stderr


def test_down_can_remove_the_data(default_project: Project) -> None:
    printed = succeed(default_project.make("down", "DOCKER=echo", "ARGS=--volumes"))
    assert printed.endswith(" down --remove-orphans --volumes\n")


# An engine that runs Triton, which has no health check.
ENGINE = """#!/bin/sh
case "$*" in
*" ps --quiet triton") echo 1234 ;;
inspect*) echo '[{"State": {"Status": "running"}, "Config": {"Labels": {"com.docker.compose.project": "p"}},'
  echo '"HostConfig": {"PortBindings": {"8000": 1}}}]' ;;
port*) echo 127.0.0.1:8000 ;;
esac
"""


def test_up_takes_docker_as_words(default_project: Project, tmp_path: Path) -> None:
    """Such as `sudo docker`, from the build to the addresses."""
    (tmp_path / "engine").write_text(ENGINE)
    (tmp_path / "engine").chmod(0o755)
    command = ("up", f"DOCKER=env {tmp_path}/engine", "COMPOSE_PROFILES=", "IMAGE=m@sha256:1")
    assert "http://127.0.0.1:8000\n" in succeed(default_project.make(*command))


def test_up_refuses_a_wrong_port_before_it_builds(default_project: Project) -> None:
    said = default_project.make("up", "DOCKER=echo", "GRAFANA_PORT=abc")
    assert "GRAFANA_PORT is abc; write a port, 1 to 65535, or 0 for a free one\n" in said.stderr
    assert "build" not in said.stdout
