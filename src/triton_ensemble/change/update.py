"""Upgrade the project to the template's newest version, and apply a changed pipeline.yml: all or nothing.

The command fetches the version by git. The toolkit of that version does the rest: it renders the files as
your version made them and as the new one makes them, and changes yours as git merges a branch. If you and
the template changed the same lines, yours stay, the template's are in .apply/conflicts/, and the exit status
is 1.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from triton_ensemble.answers import FILE
from triton_ensemble.change import ChangeError
from triton_ensemble.change.apply import attempt, undo_last
from triton_ensemble.change.git import git
from triton_ensemble.change.stage import alone, interruptible
from triton_ensemble.change.start import list_lacking_packages, start
from triton_ensemble.change.state import read_state
from triton_ensemble.environment.lock import main as renew_locks
from triton_ensemble.progress import Progress
from triton_ensemble.signals import hold_signals, ignore_signals

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
    """Update the project in the current folder; 1 if that fails, or a conflict is left."""
    if arguments.undo:
        return attempt(undo_last)
    if not arguments.prepared:
        return attempt(lambda root: _start(root, arguments))
    try:
        status = attempt(lambda root: _finish(root, arguments))
        return status or renew_locks(["--lacking"])
    finally:
        shutil.rmtree(arguments.prepared[0], ignore_errors=True)


def _start(root: Path, chosen: argparse.Namespace) -> int:
    """Fetch a version, and go on in its toolkit."""
    with interruptible():
        with alone(root):
            _check_clean(root)
        words = [*["--markers"] * chosen.markers]
        if chosen.summary:
            chosen.summary.touch()  # what can't be written is known before a file changes
            words.append(f"--summary={chosen.summary}")
        return start(root, read_state(root).made, chosen.vcs_ref, chosen.prereleases, words)


def _finish(root: Path, chosen: argparse.Namespace) -> int:
    """Render, compare, change and report."""
    from triton_ensemble.change.report import report
    from triton_ensemble.change.upgrade import Upgrade

    with alone(root), interruptible():
        hold_signals(False)
        _check_clean(root)
        work, *versions = chosen.prepared
        upgrade = Upgrade(read_state(root), Path(work), *versions)
        with Progress("Rendering the template"):
            change = upgrade.compare(chosen.markers)
        ignore_signals()  # what follows takes no time, and is done or undone
        if change.statuses or change.files.conflicts:
            change.bring()
        then = [*list_lacking_packages(Path(work))]
        then += ["To undo the update: make update UNDO=1"] * bool(change.conflicts)
        said = report(change, upgrade.read_news(), then)
        if chosen.summary:
            said.write(chosen.summary)
        is_next = change.statuses and not change.conflicts
        said.print("; see `git status` and `git diff`, then `make test`" * bool(is_next))
        return int(bool(change.conflicts))


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
