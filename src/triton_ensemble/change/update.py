"""Upgrade the project to the template's newest version, and apply a changed pipeline.yml: all or nothing.

The command fetches the version by git. The toolkit of that version does the rest: it renders the files as
your version made them and as the new one makes them, and changes yours as git merges a branch. If you and
the template changed the same lines, yours stay, the template's are in .apply/conflicts/, and the exit status
is 1.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from triton_ensemble.change import ChangeError
from triton_ensemble.change.apply import attempt, undo_last
from triton_ensemble.change.git import git, last_line
from triton_ensemble.change.stage import alone, make_stage
from triton_ensemble.change.state import read_state
from triton_ensemble.change.template import CURRENT, Template
from triton_ensemble.environment.lock import main as renew_locks
from triton_ensemble.environment.setup import list_lacking
from triton_ensemble.facts.answers import FILE
from triton_ensemble.facts.progress import Progress
from triton_ensemble.facts.signals import hold_signals, ignore_signals

PACKAGES, LACKING = "packages", "packages.txt"
PIP = [sys.executable, "-m", "pip", "install"]
EXTRA = "answers"  # what rendering needs besides
COMMIT = "git add --all && git commit"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the version, the form of conflicts, and the file for a pull request."""
    version = "the template's version, instead of the newest tag"
    parser.add_argument("--vcs-ref", default="", help=version)
    prereleases = "let the newest tag be a pre-release, such as v1.2.0rc1"
    parser.add_argument("--prereleases", action="store_true", help=prereleases)
    markers = "write conflicts into the files, between markers"
    parser.add_argument("--markers", action="store_true", help=markers)
    summary = "also write what was done to a file in Markdown, for a pull request"
    parser.add_argument("--summary", type=Path, metavar="FILE", help=summary)
    back = "restore the files to before the last update or apply"
    parser.add_argument("--undo", action="store_true", help=back)
    # What the toolkit of the version before hands to this one.
    parser.add_argument("--prepared", nargs=3, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Update the project in the current folder. Return 1 if that fails or a conflict is left."""
    if arguments.undo:
        return attempt(undo_last)
    if not arguments.prepared:
        return attempt(lambda root: _start(root, arguments))
    status = attempt(lambda root: _finish(root, arguments))
    return status or renew_locks(["--lacking"])


def _start(root: Path, chosen: argparse.Namespace) -> int:
    """Fetch a version, and go on in its toolkit, which gets a folder with a clone of the template and what it needs."""
    with alone(root):
        _check_clean(root)
        words = [*["--markers"] * chosen.markers]
        if chosen.summary:
            chosen.summary.touch()  # what can't be written is known before a file changes
            words.append(f"--summary={chosen.summary}")
        with make_stage(root) as stage:
            made = read_state(root).made
            template = Template.clone(stage.folder, made, root)
            old, new = _choose(template, str(made.get("_commit")), chosen)
            # By paths from here: that of the project may have a colon, which ends a path.
            paths = [os.path.relpath(path, root) for path in _unpack(template, new, stage.folder)]
            paths.append(os.environ.get("PYTHONPATH", ""))
            environment = {
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                "PYTHONSAFEPATH": "1",
            }
            prepared = ["--prepared", str(stage.folder), old, template.describe(new)]
            command = [sys.executable, "-m", "triton_ensemble", "update", *prepared, *words]
            if os.name == "nt":
                return subprocess.run(command, env=os.environ | environment).returncode
            _replace(command, os.environ | environment)


def _choose(template: Template, made: str, chosen: argparse.Namespace) -> tuple[str, str]:
    """Return the commits of the project's version and of the new one."""
    old = template.find_commit(made)
    wanted = made if chosen.vcs_ref == CURRENT else chosen.vcs_ref
    new = template.find_commit(wanted or template.find_newest(chosen.prereleases))
    template.refuse_downgrade(made, old, new)
    return old, new


def _replace(command: list[str], environment: dict[str, str]) -> NoReturn:
    """Let a program take the place of this one, with its lock of the project."""
    sys.stdout.flush()
    hold_signals(True)  # the next toolkit lets them come when it can handle them
    os.execve(sys.executable, command, environment)


def _unpack(template: Template, new: str, work: Path) -> list[str]:
    """Unpack the new toolkit, install packages that it needs and that are missing, and return its module path."""
    toolkit = work / "toolkit"
    template.unpack(template.take(new, work / "new"), toolkit)
    [metadata] = toolkit.glob("*.dist-info")
    requires = importlib.metadata.Distribution.at(metadata).requires or []
    if lacking := list_lacking(requires, [EXTRA]):
        _install(lacking, template.read(new, "locks/projects/run.txt"), work)
    return [str(work / PACKAGES)] * bool(lacking) + [str(toolkit)]


def _install(packages: Sequence[str], lock: str, work: Path) -> None:
    """Install packages into a folder, by the hashes of a lock if it has them all.

    Raise ChangeError if that fails.
    """
    names = [re.split(r"[^\w.-]", each)[0] for each in packages]
    found = [re.search(rf"^{n}==.*\n(?: +--hash.*\n)+", lock, re.MULTILINE) for n in names]
    is_locked = None not in found
    lines = [each[0] for each in found if each] if is_locked else [f"{each}\n" for each in packages]
    (work / LACKING).write_text("".join(lines))
    uv = os.environ.get("UV")
    command = [uv, "pip", "install", "--python", sys.executable] if uv else PIP
    options = ["--quiet", *["--require-hashes", "--no-deps"] * is_locked]
    places = ["--target", str(work / PACKAGES), "--requirement", str(work / LACKING)]
    said = subprocess.run([*command, *options, *places], capture_output=True)
    if said.returncode:
        what = f"the new version needs {', '.join(packages)}, which this environment lacks"
        raise ChangeError(f"{what}: {last_line(said.stderr)}; the project is as it was")


def _finish(root: Path, chosen: argparse.Namespace) -> int:
    """Render, compare, change and report, in the toolkit of the new version, which has the lock of the first half."""
    from triton_ensemble.change.report import report
    from triton_ensemble.change.upgrade import Upgrade

    work = Path(chosen.prepared[0])
    try:
        hold_signals(False)
        _check_clean(root)
        upgrade = Upgrade(read_state(root), work, *chosen.prepared[1:])
        with Progress("Rendering the template"):
            change = upgrade.compare(chosen.markers)
        ignore_signals()  # what follows takes no time, and is done or undone
        if change.files.statuses or change.files.conflicts:
            change.bring()
        said = report(change, upgrade.read_news(), _list_next(work, bool(change.conflicts)))
        if chosen.summary:
            said.write(chosen.summary)
        is_next = change.files.statuses and not change.conflicts
        said.print("; see `git status` and `git diff`, then `make test`" * bool(is_next))
        return int(bool(change.conflicts))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _list_next(work: Path, is_conflict: bool) -> Iterator[str]:
    """Yield what to do after an update: for packages that the project's environment lacks, and at a conflict."""
    if (file := work / LACKING).is_file():
        lines = file.read_text().splitlines()
        names = ", ".join(line.split()[0] for line in lines if not line.startswith(" "))
        yield f"requirements.lock: lacks {names}, which the toolkit needs; run: make lock"
    if is_conflict:
        yield "To undo the update: make update UNDO=1"


def _check_clean(root: Path) -> None:
    """Raise ChangeError unless the project is committed: its changes could not be told from the update's."""
    try:
        status = git(root, "status", "--porcelain", "--", ".")
    except ChangeError as error:
        if "not a git repository" not in str(error):
            raise
        what = "the project is not in a git repository"
        raise ChangeError(f"{what}; run: git init && {COMMIT}") from error
    if changed := status.decode(errors="replace").splitlines():
        raise ChangeError(f"{changed[0][3:]}: is not committed; run: {COMMIT}")
    if not git(root, "ls-files", "--", FILE):
        raise ChangeError(f"{FILE}: is not committed; restore it, or run: {COMMIT}")
