"""Upgrade the project to the template's newest version, and apply a changed pipeline.yml: all or nothing.

The command fetches the version by git. The toolkit of that version does the rest: it renders the files as
your version made them and as the new one makes them, and changes yours as git merges a branch. If you and
the template changed the same lines, yours stay, the template's are in .apply/conflicts/, and the exit status
is 1.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from triton_ensemble.change.apply import attempt, undo_last
from triton_ensemble.change.bring import Interruptions
from triton_ensemble.change.git import UpdateError, git
from triton_ensemble.change.stage import alone, undo_killed
from triton_ensemble.change.start import PACKAGES, start
from triton_ensemble.change.state import read_state
from triton_ensemble.progress import Progress

if TYPE_CHECKING:
    from triton_ensemble.change.project import Change
    from triton_ensemble.change.upgrade import Upgrade


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
    parser.add_argument("--prepared", type=Path, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Update the project in the current folder; 1 where it can't be, or a conflict is left."""
    if arguments.undo:
        return attempt(Path.cwd(), undo_last, "update")
    if not arguments.prepared:
        return attempt(Path.cwd(), lambda root: _start(root, arguments), "update")
    try:
        return attempt(Path.cwd(), lambda root: _finish(root, arguments), "update")
    finally:
        shutil.rmtree(arguments.prepared, ignore_errors=True)


def _start(root: Path, chosen: argparse.Namespace) -> int:
    """Fetch a version, and go on in its toolkit."""
    with Interruptions():
        with alone(root):
            print(*(f"{line}\n" for line in undo_killed(root)), sep="", end="", file=sys.stderr)
        _check_clean(root)
        if chosen.summary:
            chosen.summary.touch()  # what can't be written is known before a file changes
        made = read_state(root).made
        words = [*["--markers"] * chosen.markers]
        words += [f"--summary={chosen.summary}"] if chosen.summary else []
        return start(root, made, chosen.vcs_ref, chosen.prereleases, words)


def _finish(root: Path, chosen: argparse.Namespace) -> int:
    """Render, compare, change and report."""
    from triton_ensemble.change.upgrade import Upgrade

    with alone(root), Interruptions() as interruptions:
        _check_clean(root)
        upgrade = Upgrade(read_state(root), chosen.prepared)
        with Progress("Rendering the template"):
            change = upgrade.compare(chosen.markers)
        interruptions.ignore()  # what follows takes no time, and is done or undone
        if change.statuses or change.files.conflicts:
            change.bring()
        return _report(upgrade, change, chosen)


def _report(upgrade: Upgrade, change: Change, chosen: argparse.Namespace) -> int:
    """Print what an update has done, and write it to a file; 1 if it has left conflicts."""
    from triton_ensemble.change.news import read_news
    from triton_ensemble.change.owned import compare_owned_code
    from triton_ensemble.change.report import list_notes
    from triton_ensemble.change.table import table

    made, after, count = change.of.made, change.after, len(change.statuses)
    old, new, conflicts = made["_commit"], after["_commit"], change.conflicts()
    owned = compare_owned_code(change, made, after)
    rows, notes = (
        [*table(change, change.statuses, owned)],
        [*list_notes(change, owned, "the template")],
    )
    notes += _name_lacking(chosen.prepared)
    if conflicts:
        notes.append("To undo the update: make update UNDO=1")
    if not count:
        news: list[str] = []
        headline = (
            f"{after['project_name']}: is up to date with pipeline.yml and the template's {new}"
        )
    else:
        is_applied = change.of.state.is_changed
        done = [f"{old} -> {new}"] * (old != new) + ["pipeline.yml is applied"] * is_applied
        headline = f"{after['project_name']}: {', '.join([*done, f'{count} files changed'])}"
        news = read_news(upgrade.old_wheel.read_bytes(), upgrade.new_wheel.read_bytes())
    then = "" if conflicts or not count else "; see `git status` and `git diff`, then `make test`"
    _write(chosen.summary, [headline, "", *news], rows, notes)
    with suppress(BrokenPipeError):  # of a reader like `head`; the change is made
        print(headline + then, *news, *rows, *[""] * any(notes), *notes, sep="\n", flush=True)
    return int(bool(conflicts))


def _name_lacking(work: Path) -> list[str]:
    """Return a line if the project's environment lacks packages of the new toolkit."""
    file = work / PACKAGES / "requirements.txt"
    if not file.is_file():
        return []
    names = ", ".join(line.split()[0] for line in file.read_text().splitlines() if line[0] != " ")
    return [f"requirements.lock: lacks {names}, which the toolkit needs; run: make lock"]


def _write(path: Path | None, text: list[str], rows: list[str], notes: list[str]) -> None:
    """Write a text, a table and notes to a file, no longer than GitHub allows for a pull request."""
    if path:
        lines = [*text, "", *["```text", *rows, "```", ""] * bool(rows), *filter(None, notes)]
        path.write_text("\n".join(lines)[:50_000] + "\n", encoding="utf-8")


def _check_clean(root: Path) -> None:
    """Raise UpdateError unless the project is committed: its changes could not be told from the update's."""
    try:
        git(root, "rev-parse", "--show-prefix")
    except UpdateError as error:
        if "not a git repository" in str(error):
            raise UpdateError(
                "update: the project is not in a git repository; run: git init && git add --all && git commit"
            ) from error
        raise
    changed = git(root, "status", "--porcelain", "--", ".").decode(errors="replace").splitlines()
    if changed:
        raise UpdateError(f"{changed[0][3:]}: is not committed; run: git add --all && git commit")
    try:
        git(root, "cat-file", "-e", "HEAD:./.copier-answers.yml")
    except UpdateError as error:
        raise UpdateError(
            ".copier-answers.yml: is not committed; restore it, or run: git add --all && git commit"
        ) from error
