"""Move the ensemble to another published version of a step's model.

First the local Triton serves the new configs. If the version does not load, or its live tests or golden
answers fail, nothing changes. Then the command writes pipeline.yml and the configs, and moves a running
server, at TRITON_URL or at the usual port, through the model control API. A request in flight is answered by
the version that it began with. ADMIN_KEY_FILE names the key of a server that asks for one. If the API is
closed or no server runs here, give a command that restarts the servers with --roll.

With --golden, the new version's answers to the samples become the golden answers. `make rollback` also
restores the former ones.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from triton_ensemble.change.stage import Stage, make_stage
from triton_ensemble.deploy.versions import VersionError
from triton_ensemble.deploy.versions.attempt import attempt, version
from triton_ensemble.deploy.versions.candidates import (
    GOLDEN,
    failures,
    record_golden,
    serve_candidate,
)
from triton_ensemble.deploy.versions.change import (
    Changes,
    candidate,
    compute_changes,
    write,
)
from triton_ensemble.deploy.versions.move import add_roll, follow
from triton_ensemble.deploy.versions.pipeline import Pipeline
from triton_ensemble.serve import published
from triton_ensemble.serve.complete import complete

NONE: Changes = {}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the step, the version, and whether its different answers are right."""
    parser.add_argument("name", metavar="NAME", help="a step with published versions")
    parser.add_argument("version", type=version, metavar="VERSION", help="the version to move to")
    parser.add_argument(
        "--golden", action="store_true", help="record the version's answers as golden answers"
    )
    add_roll(parser)


def run(arguments: Namespace) -> int:
    """Shift to a version. Print a line and return 1 if that is impossible."""
    name, number, roll = arguments.name, arguments.version, arguments.roll
    return attempt(lambda: shift(Path.cwd(), name, number, record=arguments.golden, roll=roll))


def shift(
    root: Path,
    name: str,
    number: int,
    *,
    record: bool = False,
    tested: bool = True,
    more: Changes = NONE,
    roll: str = "",
) -> None:
    """Move the ensemble of the project in `root` to a version.

    If `record`, its answers are the golden ones from now on. If `tested`, the live tests must pass on a candidate.
    `more` are other files that change with it. Raise VersionError, with nothing written, if that is impossible.
    """
    before = Pipeline(root)
    before.step(name)
    known = published.read(root)
    _check(before, name, number, known)
    after = before.set_versions(name, sorted({*before.versions(name), number}), number)
    changes = compute_changes(before, after) | {**more}
    recorded = ""
    with make_stage(root) as stage, published.undo_on_failure(root):
        if tested:
            golden, recorded = _test_candidate(stage, root, name, number, changes, record=record)
            changes |= golden
        previous = _previous(root, before.find_served(name), changes)
        known[name] = {**known[name], "previous": previous}
        changes[published.FILE] = published.text(known).encode()
        line = follow(stage, after, name, changes, roll)
    was = before.find_served(name)
    print(
        f"{name}: the ensemble asks for version {number}; it was {was}, to which `make rollback NAME={name}` goes back"
    )
    print(*filter(None, [line, recorded]), sep="\n", flush=True)


def _previous(root: Path, version: int, changes: Changes) -> dict[str, Any]:
    """Return what `make rollback` needs: the version and, if golden answers change, the former ones' digest."""
    if GOLDEN not in changes:
        return {"version": version}
    file = root / GOLDEN
    return {
        "version": version,
        "golden": published.keep(root, file, GOLDEN) if file.exists() else "",
    }


def _check(before: Pipeline, name: str, number: int, known: published.Record) -> None:
    versions = known.get(name, {}).get("versions", {})
    if str(number) not in versions:
        listed = ", ".join(sorted(versions, key=int)) or "none"
        then = f"make publish NAME={name} VERSION={number}"
        raise VersionError(
            f"{name}: version {number} is not published (published: {listed}); {then}"
        )
    if before.list_asked(name) == {number}:
        raise VersionError(f"{name}: the ensemble already asks for version {number}")
    if str(before.find_served(name)) not in versions:
        raise VersionError(
            f"{name}: version {before.find_served(name)}, which is served, is not published; make publish NAME={name} VERSION={before.find_served(name)} FROM=HEAD"
        )


def _test_candidate(
    stage: Stage,
    root: Path,
    name: str,
    number: int,
    changes: dict[str, bytes | None],
    *,
    record: bool,
) -> tuple[dict[str, bytes | None], str]:
    """Test a candidate, and return the golden answers that it gave, if they are to be recorded, and what is new."""
    project = candidate(stage, root, changes)
    try:
        complete(project)
        golden = project.root / GOLDEN
        if golden.exists():
            write(project.root, {GOLDEN: golden.read_bytes()})  # it is a link to the project's
        with serve_candidate(project) as triton:
            said = record_golden(project, triton) if record else ""
            failing = failures(project, triton)
        if failing:
            instead = "; if its answers are right: GOLDEN=1" if golden.name in failing[0] else ""
            raise VersionError(f"a live test fails: {failing[0]}{instead}")
    except VersionError as error:
        text = str(error).replace(str(project.root), str(root))
        raise VersionError(f"{name}: version {number} is not shifted to: {text}") from error
    return ({GOLDEN: golden.read_bytes()} if record else {}), said
