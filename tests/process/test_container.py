"""What the answers make of the container: base image, flags, shared memory; and the files that say so. Its tests on an engine are in docker/."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from support import PIPELINES, UNUSUAL, Generate, Project, succeed, validate

from triton_ensemble.container import imports


@pytest.mark.parametrize("name", PIPELINES | UNUSUAL)
def test_compose_files_keep_to_the_specification(generate: Generate, name: str) -> None:
    """Docker's compose plugin checks them; docker/ has the older docker-compose read them too."""
    project = generate(**{**(PIPELINES | UNUSUAL)[name], "gpu_count": 2})
    files = sorted((project / "deploy").glob("compose*.yaml"))
    assert len(files) == 3
    validate("compose-spec", *files)
    gpu = yaml.safe_load((project / "deploy/compose.gpu.yaml").read_text())
    reservations = gpu["services"]["triton"]["deploy"]["resources"]["reservations"]
    assert reservations["devices"] == [{"driver": "nvidia", "count": 2, "capabilities": ["gpu"]}]


def test_a_checkout_has_containers_of_its_own(generate: Generate, tmp_path: Path) -> None:
    """The same ones from whatever path that leads to it; docker/ has two of them run."""
    project = generate()
    other = Project(Path(shutil.copytree(project.path, tmp_path / "it's another")))
    (tmp_path / "link").symlink_to(project.path)
    found = [
        re.search(r"--project-name (\S+)", succeed(checkout.make("--dry-run", "down")))
        for checkout in (project, Project(tmp_path / "link"), other)
    ]
    [name, again, others] = (match[1] for match in found if match)
    assert re.fullmatch(r"image-classification-\d+", name)
    assert name == again != others
    assert "--project-name mine " in succeed(
        project.make("-n", "down", COMPOSE_PROJECT_NAME="mine")
    )


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
    model = next(iter(sorted(project.path.glob("model_repository/*/1/steps/*.py"))))
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
