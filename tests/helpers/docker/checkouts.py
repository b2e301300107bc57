"""The images and containers that a checkout of a project builds and starts on an engine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support import Project, succeed

from docker.stand_in import docker
from triton_ensemble.facts.project import Project as Facts
from triton_ensemble.serve.container.settings import Settings

# On free ports, and without the images of others.
ALONE = ("HTTP_PORT=0", "GRPC_PORT=0", "METRICS_PORT=0", "COMPOSE_PROFILES=")
# Kills the Python process of the step `label`, in a container of Triton.
KILL_LABEL = r"""
for process in /proc/[0-9]*; do
  if tr '\0' ' ' <$process/cmdline | grep -q '^/opt/.*backend_stub .*/label/'; then kill -9 ${process#/proc/}; fi
done
"""


def inspect(image: str) -> dict[str, Any]:
    return dict(json.loads(docker("image", "inspect", image))[0])


def settings(project: Project) -> Settings:
    """Return the names of what a checkout builds and starts."""
    return Settings.read(Facts.load(project.path), {})


def compose_project(project: Project) -> str:
    """Return the name of what `make up` starts."""
    return settings(project).project_name


def image_of(project: Project) -> str:
    """Return the image that `make image` makes."""
    return settings(project).images["IMAGE"]


def left(name: str) -> list[str]:
    """Return the containers, networks and volumes of a compose project."""
    label = f"--filter=label=com.docker.compose.project={name}"
    ids = [docker("ps", "--all", "--quiet", label)]
    ids += [docker(kind, "ls", "--quiet", label) for kind in ("network", "volume")]
    return " ".join(ids).split()


@contextmanager
def serving(project: Project, *options: str) -> Iterator[dict[str, str]]:
    """Run `make up`, yield the URLs that it prints by protocol, and run `make down`, of the volumes too."""
    try:
        printed = succeed(project.make("up", *options, *ALONE))
        yield dict(
            reversed(pair) for pair in re.findall(r"^((http|grpc)://[\d.:]+)$", printed, re.M)
        )
    finally:
        succeed(project.make("down", *options, "ARGS=--volumes"))
