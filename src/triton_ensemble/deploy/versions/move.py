"""A change of versions, and the servers that run: told by the model control API, else started anew by ROLL.

ROLL is a command of the project's owner that lets the servers have what the files say, one after the other, and
waits for that, as `kubectl apply` and `kubectl rollout status` do.
"""

from __future__ import annotations

import os
import subprocess
from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path

from triton_ensemble.change.stage import Stage
from triton_ensemble.compile.graph import Graph
from triton_ensemble.deploy.versions import VersionError
from triton_ensemble.deploy.versions.change import Changes, bring
from triton_ensemble.deploy.versions.pipeline import Pipeline
from triton_ensemble.deploy.versions.running import NotMoved, Running
from triton_ensemble.facts.project import Project

# What `make shift` was given is nothing for the `make` in ROLL: it has a VERSION of its own.
OURS = ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "NAME", "VERSION")
HOW = "a running server follows with ROLL=command, which restarts it (docs/versions.md)"


class RollError(VersionError):
    """Raised if ROLL has failed."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ROLL has failed (exit status {status})")


def add_roll(parser: ArgumentParser) -> None:
    """Declare the command that restarts servers."""
    what = "command that restarts the servers and waits, for when the model control API is closed"
    parser.add_argument("--roll", metavar="COMMAND", default="", help=what)


def follow(stage: Stage, pipeline: Pipeline, name: str, changes: Changes, roll: str) -> str:
    """Write the changes and let the servers follow, and return a line on that.

    Raise VersionError if they do not follow. The files are then as they were, and ROLL has let the servers have
    these again.
    """
    lines: list[str] = []
    try:
        bring(
            stage,
            pipeline.root,
            changes,
            lambda: lines.append(_move(pipeline, name, changes, roll)),
        )
    except RollError as error:
        try:
            _roll(pipeline.root, roll)
        except RollError:
            back = "it fails with them too, so check what the servers serve"
        else:
            back = "it succeeded with them"
        raise VersionError(f"{error}; the files are as they were, and {back}") from error
    return lines[0]


def _move(pipeline: Pipeline, name: str, changes: Iterable[str], roll: str) -> str:
    try:
        return _tell_server(pipeline, name, changes)
    except NotMoved as reason:
        if not roll:
            return f"{reason}; {HOW}"
        print(f"{reason}; so ROLL restarts it: {roll}", flush=True)
    _roll(pipeline.root, roll)
    return "ROLL succeeded: the servers serve it"


def _tell_server(pipeline: Pipeline, name: str, changes: Iterable[str]) -> str:
    """Let the server load what has changed, by the model control API.

    Raise NotMoved if the API can't be used for that.
    """
    graph: Graph = pipeline.answered["graph"]
    ensembles = [each["name"] for each in reversed(graph["ensembles"])]  # those inside come first
    changed = {path.split("/")[1] for path in changes if path.startswith("model_repository/")}
    callers = sorted(changed - {name} - {*ensembles})
    cached = [e["name"] for e in graph["ensembles"] if "response_cache" in e["settings"]]
    if cached:
        raise NotMoved(f"{', '.join(cached)}: has a cache, which would keep old answers")

    def holds(server: Running) -> bool:
        asked, loaded = server.list_asked(ensembles, name), server.versions(name)
        return asked <= pipeline.list_asked(name) | {-1} and loaded == {*pipeline.versions(name)}

    project = Project.load(pipeline.root)
    return Running(project).load([name, *callers, *(e for e in ensembles if e in changed)], holds)


def _roll(root: Path, roll: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in OURS}
    try:
        status = subprocess.run(roll, shell=True, cwd=root, env=environment).returncode
    except KeyboardInterrupt:
        what = "the files are as they were, and the servers may serve either version; run it again"
        raise VersionError(f"ROLL was interrupted; {what}: {roll}") from None
    if status:
        raise RollError(status)
