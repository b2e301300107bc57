"""Apply pipeline.yml: change the project's managed files to what it says, offline and without a commit.

Your edits of these files stay. If you and pipeline.yml changed the same lines, yours stay, the other version
is saved in .apply/conflicts/, and the exit status is 1. Every command that needs the files applies a changed
pipeline.yml first. If the environment has CI=true, it stops instead. The template's version does not change.
`make update` upgrades it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from triton_ensemble.change import ChangeError
from triton_ensemble.change.kept import (
    CONFLICTS,
    is_remembered,
    list_conflicts,
    remember,
    undo,
)
from triton_ensemble.change.stage import (
    PREFIX,
    alone,
    file_problem,
    interruptible,
)
from triton_ensemble.change.state import PIPELINE, State, read_state
from triton_ensemble.facts.answers import FILE, list_changed_answers
from triton_ensemble.facts.signals import ignore_signals

IN_CI = "pipeline.yml: is not applied; run `make apply` and commit"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to do instead of applying."""
    instead = parser.add_mutually_exclusive_group()
    check = "change nothing; exit status 1 if pipeline.yml is not applied or a conflict is open"
    instead.add_argument("--check", action="store_true", help=check)
    unless = "if the environment has CI=true, stop with exit status 1 instead of applying a change"
    instead.add_argument("--unless-ci", action="store_true", help=unless)
    back = "restore pipeline.yml and the files to before it was last applied"
    instead.add_argument("--undo", action="store_true", help=back)


def run(arguments: argparse.Namespace) -> int:
    """Apply, check or undo. Return 1 if that fails or a conflict is left."""
    if arguments.unless_ci:
        return apply_first(Path.cwd())
    return attempt(_check if arguments.check else undo_last if arguments.undo else _apply)


def apply_first(root: Path) -> int:
    """Apply a changed pipeline.yml before another command runs. Print a line and return 1 if that can't be done."""
    return attempt(_apply_first, root)


def attempt(action: Callable[[Path], int | None], root: Path | None = None) -> int:
    """Run an action on a project and return its status, or 0 if it has none.

    If it was not done, print a line that says why, and return 1, or 130 if it was interrupted.
    """
    root = root or Path.cwd()
    try:
        with interruptible():
            return action(root) or 0
    except ChangeError as error:
        line, status = str(error), 1
    except OSError as error:
        line, status = f"{file_problem(error, root)}; the project is as it was", 1
    except KeyboardInterrupt:
        line, status = "interrupted; the project is as it was", 130
    print(line, file=sys.stderr)
    return status


def _apply(root: Path) -> int:
    """Bring the project in `root` to what its pipeline.yml says. Return 1 if that leaves a conflict."""
    if not any(root.glob(f"{PREFIX}*")) and not read_state(root).is_changed:
        if not is_remembered(root):
            _check_answers(root)
        return 0
    with alone(root, wait=True):
        state = read_state(root)  # another command may have applied it meanwhile
        return _bring(state) if state.is_changed else 0


def _check_answers(root: Path) -> None:
    """Raise ChangeError for mistakes in pipeline.yml that Copier can't refuse, or remember the text as correct."""
    from triton_ensemble.check.formats import format_text
    from triton_ensemble.check.pipeline.check import check_answers
    from triton_ensemble.compile.templates import RulesError

    try:
        refused = check_answers(root / PIPELINE)
    except (ModuleNotFoundError, RulesError):
        return  # without the packages that the rules need, nothing can be changed either
    if refused:
        raise ChangeError(f"{format_text(refused)}\n{PIPELINE}: is refused; correct it first")
    remember(root)


def _apply_first(root: Path) -> None:
    if os.environ.get("CI") == "true" and read_state(root).is_changed:
        raise ChangeError(IN_CI)
    _apply(root)


def _bring(state: State) -> int:
    # Most commands find nothing to apply, and need none of this.
    from triton_ensemble.change.project import ChangedProject
    from triton_ensemble.change.report import report

    if is_remembered(state.root):
        print(_name_other_answers(state), flush=True)
    change = ChangedProject(state).change()
    ignore_signals()  # what follows takes no time, and is done or undone
    change.bring()
    report(change).print()
    return int(bool(change.conflicts))


def _name_other_answers(state: State) -> str:
    """Name the answers that another program, such as `copier update --data`, has changed."""
    names = ", ".join(list_changed_answers(state.given, state.made))
    applied = "and pipeline.yml, which did not, is applied"
    return f"{FILE}: {names} changed, {applied}; write the new answer into pipeline.yml to keep it"


def undo_last(root: Path) -> None:
    """Undo the last apply or update of the project in `root`."""
    with alone(root, wait=True) as was_killed:
        ignore_signals()
        if not was_killed:  # else that was the last
            undo(root)


def refuse_unapplied(root: Path) -> None:
    """Raise ChangeError if pipeline.yml is not applied or a conflict is open."""
    if read_state(root).is_changed:
        raise ChangeError(IN_CI)
    what = "pipeline.yml changed lines that you changed too; merge"
    lines = [
        f"{path}: {what} {CONFLICTS}/{path} into it, then remove that file"
        for path in list_conflicts(root)
    ]
    if lines:
        raise ChangeError("\n".join(lines))


def _check(root: Path) -> None:
    from triton_ensemble.change.project import ChangedProject, list_edited

    refuse_unapplied(root)
    for path in list_edited(ChangedProject(read_state(root))):
        print(f"{path}: has edits of yours")
