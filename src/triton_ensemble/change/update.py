"""Upgrade the project to the template's newest version by `copier update`: all or nothing.

The command also applies a changed pipeline.yml.

It runs the update in a copy of the last commit. If the update succeeds, its files are moved into the project;
if a move fails, all are undone. A failure is one line, and conflicts are an error. The command needs an
environment with Copier, which `make update` makes.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_ensemble.answers import (
    LEFT_OUT,
    Answers,
    UnreadableAnswers,
    list_changed_answers,
    read_answers,
)
from triton_ensemble.change.aside import KEPT, Aside, aside
from triton_ensemble.change.bring import Interruptions, bring
from triton_ensemble.change.edits import MAKEFILE, keep_edits, keep_unknown, renew_generated
from triton_ensemble.change.git import UpdateError, git
from triton_ensemble.change.news import read_news
from triton_ensemble.change.owned import compare_owned_code, suggest_renames
from triton_ensemble.change.stage import file_problem, undo_killed
from triton_ensemble.change.table import table
from triton_ensemble.check.pipeline.problems import list_problems
from triton_ensemble.pipeline.rules import rules
from triton_ensemble.progress import Progress

BACK = "git reset -q . && git restore . && git clean -fd ."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the version, and the file for a pull request."""
    version = "the template's version, instead of the newest tag"
    parser.add_argument("--vcs-ref", default="", help=version)
    prereleases = "let the newest tag be a pre-release, such as v1.2.0rc1"
    parser.add_argument("--prereleases", action="store_true", help=prereleases)
    summary = "also write what was done to a file in Markdown, for a pull request"
    parser.add_argument("--summary", type=Path, metavar="FILE", help=summary)


def run(arguments: argparse.Namespace) -> int:
    """Update the project in the current folder; 1 where it can't be, or a conflict is left."""
    if importlib.util.find_spec("copier") is None:
        sys.exit("update: needs Copier, in an environment of its own; run: make update")
    given = _read_pipeline()
    try:
        with Interruptions() as interruptions:
            return _update(Path.cwd(), given, arguments, interruptions)
    except UpdateError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"update: {file_problem(error, Path.cwd())}; the project is as it was")
    except KeyboardInterrupt:
        print("update: interrupted; the project is as it was", file=sys.stderr)
        return 130


def _update(
    root: Path, given: Answers, chosen: argparse.Namespace, interruptions: Interruptions
) -> int:
    for line in undo_killed(root):
        print(line, file=sys.stderr)
    _check_clean(root)
    if chosen.summary:
        chosen.summary.touch()  # what can't be written is known before a file changes
    with aside(root) as copy:
        before = copy.answers()
        _check_answers({**LEFT_OUT, **given}, before)
        with Progress("Rendering the template"):
            notes = [copy.update(chosen.vcs_ref, chosen.prereleases), *keep_edits(copy)]
            renew_generated(copy, before.get("owned") or [])
            notes += keep_unknown(copy, copy.changes())
            changes = copy.changes()
        is_applied = bool(list_changed_answers(given, before))
        interruptions.ignore()  # what follows takes no time, and is done or undone
        notes += bring(copy, changes)
        return _report(copy, before, changes, notes, is_applied, chosen.summary)


def _check_answers(given: Answers, made: Answers) -> None:
    """Raise UpdateError for what is wrong with answers, of which Copier refuses what a prompt can lead to."""
    if problem := next(list_problems(rules().select_answers(made) | given, rules()), None):
        raise UpdateError(rules().line(problem))


def _report(
    copy: Aside,
    before: dict[str, Any],
    changes: Mapping[str, str],
    notes: list[str],
    is_applied: bool,
    summary: Path | None,
) -> int:
    """Print what an update has done, and write it to a file; 1 where it has left conflicts."""
    old, answers = before.get("_commit"), copy.answers()
    name, new = answers.get("project_name"), answers.get("_commit")
    count = sum(not path.startswith(f"{KEPT}/") for path in changes)
    owned = compare_owned_code(copy, before, answers)
    if not count:
        headline = f"{name}: is up to date with pipeline.yml and the template's {new}"
        print(headline)
        _print_notes(notes)
        _write(summary, [headline], [], notes)
        return 0
    done = [f"{old} -> {new}"] * (old != new) + ["pipeline.yml is applied"] * is_applied
    conflicts = sorted(copy.conflicts())
    then = "" if conflicts else "; see `git status` and `git diff`, then `make test`"
    headline = f"{name}: {', '.join([*done, f'{count} files changed'])}"
    news, rows = read_news(copy, changes), [*table(copy, changes, owned)]
    notes = [*notes, *suggest_renames(owned, changes)]
    print(headline + then, *news, *rows, *[""] * any(notes), sep="\n", flush=True)
    _print_notes(notes)
    _write(summary, [headline, "", *news], rows, notes)
    if conflicts:
        print(f"To undo the update: {BACK}", file=sys.stderr)
    if marked := ", ".join(path for path in conflicts if path != MAKEFILE):
        lines = "both you and the template changed lines that stand between <<<<<<< and >>>>>>>"
        print(f"{marked}: {lines}; choose, then `git add`", file=sys.stderr)
    return int(bool(conflicts))


def _print_notes(notes: Sequence[str]) -> None:
    print(*filter(None, notes), sep="\n", end="\n" * any(notes), file=sys.stderr)


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


def _read_pipeline() -> Answers:
    """Return the answers of pipeline.yml; exit with a line if it can't be read."""
    try:
        return read_answers(Path("pipeline.yml"))[0]
    except UnreadableAnswers as error:
        sys.exit(f"pipeline.yml:{error}")
    except OSError as error:
        sys.exit(f"pipeline.yml: {error}")
