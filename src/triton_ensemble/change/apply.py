"""Apply pipeline.yml: change the project's managed files to what it says, offline and without a commit.

Your edits of these files stay. If you and pipeline.yml changed the same lines, yours stay, and the other
version is saved in .apply/conflicts/. Every command that needs the files applies a changed pipeline.yml
first; if the environment has CI=true, it stops instead. The template's version does not change; `make update`
upgrades it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from triton_ensemble.answers import FILE, list_changed_answers
from triton_ensemble.change import ApplyError
from triton_ensemble.change.files import is_remembered, open_conflicts, remember
from triton_ensemble.change.git import UpdateError
from triton_ensemble.change.stage import PREFIX, alone, file_problem, undo_killed
from triton_ensemble.change.state import PIPELINE, State, read_state

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
    """Apply, check or undo; return 1 after a line if that fails."""
    if arguments.unless_ci:
        return apply_first(Path.cwd())
    return attempt(
        Path.cwd(), _check if arguments.check else undo_last if arguments.undo else apply
    )


def apply_first(root: Path) -> int:
    """Apply a changed pipeline.yml before another command runs; return 1 after a line if that can't be done."""
    return attempt(root, _apply_unless_ci)


def attempt(root: Path, action: Callable[[Path], int | None], command: str = "apply") -> int:
    """Return what an action returns; 1 after a line on why it was not done, 130 if it was interrupted."""
    try:
        return action(root) or 0
    except (ApplyError, UpdateError) as error:
        print(str(error).removeprefix("update: " * (command == "apply")), file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{command}: {file_problem(error, root)}; the project is as it was", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{command}: interrupted; the project is as it was", file=sys.stderr)
        return 130


def apply(root: Path) -> None:
    """Bring the project in `root` to what its pipeline.yml says; ApplyError if that can't be done."""
    if not any(root.glob(f"{PREFIX}*")) and not read_state(root).is_changed:
        if not is_remembered(root):
            _check_answers(root)
        return
    with alone(root, wait=True):
        _undo_killed(root)
        state = read_state(root)  # another command may have applied it meanwhile
        if state.is_changed:
            _bring(state)


def _check_answers(root: Path) -> None:
    """Raise ApplyError for what Copier can't refuse of a file of answers; remember a text that has none of it."""
    from triton_ensemble.check.formats import format_text
    from triton_ensemble.check.pipeline.check import check_answers
    from triton_ensemble.pipeline.rules import RulesError

    try:
        refused = check_answers(root / PIPELINE)
    except (ModuleNotFoundError, RulesError):
        return  # without the packages that the rules need, nothing can be changed either
    if refused:
        raise ApplyError(f"{format_text(refused)}\n{PIPELINE}: is refused; correct it first")
    remember(root)


def _apply_unless_ci(root: Path) -> None:
    if os.environ.get("CI") == "true" and read_state(root).is_changed:
        raise ApplyError(IN_CI)
    apply(root)


def _bring(state: State) -> None:
    # Most commands find nothing to apply, and need none of this.
    from triton_ensemble.change.bring import Interruptions
    from triton_ensemble.change.project import ChangedProject
    from triton_ensemble.change.report import report

    with Interruptions() as interruptions:
        notes = [_name_other_answers(state)] * is_remembered(state.root)
        change = ChangedProject(state).change()
        interruptions.ignore()  # what follows takes no time, and is done or undone
        change.bring()
        with suppress(BrokenPipeError):  # of a reader like `head`; the change is made
            print(*notes, *report(change), sep="\n", flush=True)


def _name_other_answers(state: State) -> str:
    """Name the answers that another program, such as `copier update --data`, has changed."""
    names = ", ".join(list_changed_answers(state.given, state.made))
    applied = "and pipeline.yml, which did not, is applied"
    return f"{FILE}: {names} changed, {applied}; write the new answer into pipeline.yml to keep it"


def undo_last(root: Path) -> None:
    """Undo the last apply or update of the project in `root`."""
    from triton_ensemble.change.bring import Interruptions
    from triton_ensemble.change.undo import undo

    with alone(root, wait=True), Interruptions() as interruptions:
        interruptions.ignore()
        if not _undo_killed(root):  # else that was the last
            undo(root)


def _undo_killed(root: Path) -> bool:
    """Undo what was killed, with a line for each; return whether there was any."""
    lines = [*undo_killed(root)]
    print(*lines, sep="\n", end="\n" * bool(lines), file=sys.stderr)
    return bool(lines)


def _check(root: Path) -> None:
    from triton_ensemble.change.project import ChangedProject, list_edited

    state = read_state(root)
    if state.is_changed:
        raise ApplyError(IN_CI)
    if conflicts := [*open_conflicts(root)]:
        what = "pipeline.yml changed lines that you changed too; merge .apply/conflicts/"
        raise ApplyError(
            "\n".join(f"{p}: {what}{p} into it, then remove that file" for p in conflicts)
        )
    for path in list_edited(ChangedProject(state)):
        print(f"{path}: has edits of yours")
