"""Move the ensemble back to the version that it had before the last shift.

The command restores the golden answers that the shift replaced. Then it runs the live tests, and names the
tests that fail.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from triton_ensemble.deploy.versions import VersionError
from triton_ensemble.deploy.versions.attempt import attempt
from triton_ensemble.deploy.versions.candidates import GOLDEN, failures, serve_candidate
from triton_ensemble.deploy.versions.change import Changes
from triton_ensemble.deploy.versions.move import add_roll
from triton_ensemble.deploy.versions.pipeline import Pipeline
from triton_ensemble.deploy.versions.shift import shift
from triton_ensemble.facts.project import Project
from triton_ensemble.serve import published


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the step, which may be left out if only one step was shifted."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="a step that was shifted")
    add_roll(parser)


def run(arguments: Namespace) -> int:
    """Shift back. Print a line and return 1 if that is impossible."""
    return attempt(lambda: _rollback(Path.cwd(), arguments.name, arguments.roll))


def _rollback(root: Path, name: str | None, roll: str) -> None:
    record = published.read(root)
    shifted = [model for model, entry in record.items() if "previous" in entry]
    if not shifted:
        raise VersionError("no step was shifted yet; see `make shift`")
    name = name or (shifted[0] if len(shifted) == 1 else "")
    if name not in shifted:
        what = f"{name}: was not shifted" if name else "several steps were shifted"
        raise VersionError(f"{what}; write NAME=one of {', '.join(shifted)}")
    previous = record[name]["previous"]
    number, was = int(previous["version"]), Pipeline(root).find_served(name)
    shift(root, name, number, tested=False, more=_read_golden(root, previous), roll=roll)
    if failing := _list_failing(root, f"make shift NAME={name} VERSION={was}"):
        print(*failing, sep="\n")


def _list_failing(root: Path, forth: str) -> list[str]:
    """Return lines on the live tests that fail now, or why they did not run: the version is served already."""
    project = Project.load(root)
    try:
        with serve_candidate(project) as triton:
            failing = failures(project, triton)
    except VersionError as error:
        return [str(error)]
    except KeyboardInterrupt:
        return ["the live tests were interrupted; run: make test"]
    then = f"live tests fail now; change what they expect, or run: {forth}"
    return [then, *failing] if failing else []


def _read_golden(root: Path, previous: dict[str, Any]) -> Changes:
    """Return the golden answers before the shift, if it recorded others.

    Their content is None if there were none.
    """
    if "golden" not in previous:
        return {}
    digest = previous["golden"]
    return {GOLDEN: published.find_kept_file(root, GOLDEN, digest).read_bytes() if digest else None}
