"""Stop the containers that `up` started, and keep the image and Prometheus' data.

COMPOSE_PROJECT_NAME, COMPOSE and DOCKER count as for `up`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from triton_ensemble.facts.project import Project
from triton_ensemble.serve.container.images import call
from triton_ensemble.serve.container.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what to remove."""
    parser.add_argument("--volumes", action="store_true", help="remove the data too")


def run(arguments: argparse.Namespace) -> int:
    """Stop the containers, if an engine answers, and return the exit status of compose."""
    settings = Settings.read(Project.load(Path.cwd()))
    os.environ.update(settings.variables | {"COMPOSE_PROFILES": "monitoring"})
    # Without an engine, the older docker-compose would answer with a traceback.
    if status := call([*settings.docker, "version"], is_shown=False):
        return status
    volumes = ["--volumes"] if arguments.volumes else []
    return call([*settings.compose, "down", "--remove-orphans", *volumes])
