"""Run the smoke tests of tests/docker/ on the container, and test what happens when a part of it dies.

Without a Docker engine the tests are skipped, or fail if REQUIRE_DOCKER=1. The containers have free ports and
names of their own. The variables of `image`, `gateway-image` and `up` count, without ports and profiles.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from triton_ensemble.facts.project import Project
from triton_ensemble.serve.container.compose import ContainerError, output
from triton_ensemble.serve.container.images import build, make_readable
from triton_ensemble.serve.container.settings import Settings

PORTS = ("HTTP_PORT", "GRPC_PORT", "METRICS_PORT", "GATEWAY_PORT")
ALONE = dict.fromkeys(PORTS, "0") | {"TRITON_PORTS": "1", "COMPOSE_PROFILES": ""}


def run(arguments: argparse.Namespace) -> int:
    """Build the images, run the tests, and return the exit status of what fails first."""
    os.environ.update(ALONE)
    settings = Settings.read(Project.load(Path.cwd()))
    os.environ.update(settings.variables)
    make_readable(settings.root)
    if _has_engine(settings):
        for variable in ("IMAGE", *(["GATEWAY_IMAGE"] if settings.has_gateway else [])):
            if status := build(settings, variable):
                return status
    return subprocess.run([sys.executable, "-m", "pytest", "-rs", "tests/docker"]).returncode


def _has_engine(settings: Settings) -> bool:
    try:
        output(*settings.docker, "info")
    except ContainerError:
        return False  # the tests say so
    return True
