"""Remove a version of a step's model from pipeline.yml and from a running server.

The published files stay in versions/, and `make shift` brings the version back. The command refuses a version
that a step still uses.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from triton_ensemble.change.stage import make_stage
from triton_ensemble.deploy.versions import VersionError
from triton_ensemble.deploy.versions.attempt import attempt, version
from triton_ensemble.deploy.versions.change import compute_changes
from triton_ensemble.deploy.versions.move import add_roll, follow
from triton_ensemble.deploy.versions.pipeline import Pipeline


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the step and the version."""
    parser.add_argument("name", metavar="NAME", help="a step with several versions")
    parser.add_argument("version", type=version, metavar="VERSION", help="the version to unload")
    add_roll(parser)


def run(arguments: Namespace) -> int:
    """Unload a version. Print a line and return 1 if that is impossible."""
    name, number, roll = arguments.name, arguments.version, arguments.roll
    return attempt(lambda: _unload(Path.cwd(), name, number, roll))


def _unload(root: Path, name: str, number: int, roll: str) -> None:
    before = Pipeline(root)
    versions = before.versions(name)
    if number not in versions:
        listed = ", ".join(map(str, versions))
        raise VersionError(f"{name}: version {number} is not loaded (loaded: {listed})")
    if number in before.list_asked(name):
        raise VersionError(
            f"{name}: the ensemble asks for version {number}; shift it to another first"
        )
    left = [each for each in versions if each != number]
    after = before.set_versions(name, left, before.find_served(name))
    with make_stage(root) as stage:
        line = follow(stage, after, name, compute_changes(before, after), roll)
    print(f"{name}: version {number} is no longer loaded; {', '.join(map(str, left))} is left")
    print(line)
