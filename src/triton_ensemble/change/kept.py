"""The folder .apply/ of a project, which git does not see: open conflicts, kept edits, and the last change, to undo it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from triton_ensemble.change import ChangeError
from triton_ensemble.change.stage import PREFIX, Stage
from triton_ensemble.compile.file import replace
from triton_ensemble.facts.answers import (
    Answers,
    UnreadableAnswers,
    list_changed_answers,
    read_answers,
)
from triton_ensemble.facts.reading import iter_files, read_bytes

FOLDER = ".apply"
LAST = "last"  # the stage of the last change, from which it can be undone
CONFLICTS = f"{FOLDER}/conflicts"  # rendered files, where the owner changed the same lines
KEPT = f"{FOLDER}/kept"  # edited files as they were, and an undone pipeline.yml
TEXT = "pipeline.yml"  # as it was last applied, with its comments
LEFT = "left.yml"  # the same, beside an update: that leaves pipeline.yml as its owner has it, and so does its undo


def prepare(root: Path) -> Path:
    """Return the folder, made if it is not there. Raise ChangeError if a link is in it."""
    folder = root / FOLDER
    for path in (folder, *folder.rglob("*")):
        if path.is_symlink() and path.parent != folder / LAST:  # which has links that were replaced
            raise ChangeError(f"{path}: is a link, and files are written there; remove it")
    folder.mkdir(exist_ok=True)
    ignored = folder / ".gitignore"
    if not ignored.is_file() or ignored.read_bytes() != b"*\n":
        ignored.write_bytes(b"*\n")
    return folder


def is_remembered(root: Path) -> bool:
    """Return whether the text of pipeline.yml was applied last."""
    path = root / FOLDER / TEXT
    return path.is_file() and path.read_bytes() == (root / TEXT).read_bytes()


def remember(root: Path) -> None:
    """Keep the text of an applied pipeline.yml, if the folder can be written."""
    with suppress(OSError):
        if not is_remembered(root):
            (prepare(root) / TEXT).write_bytes((root / TEXT).read_bytes())


def keep_edits(root: Path, files: Mapping[str, bytes]) -> None:
    """Keep edited files by their paths in the project.

    Files that were kept there before get a number after their name.
    """
    for path, content in files.items():
        target = prepare(root).parent / KEPT / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_file() and target.read_bytes() != content:
            names = (target.with_name(f"{target.name}.{number}") for number in count(1))
            target.rename(next(name for name in names if not name.exists()))
        target.write_bytes(content)


def list_conflicts(root: Path) -> Iterator[str]:
    """Yield the paths of files with lines that their owner kept, until the version beside them is removed."""
    folder = root / CONFLICTS
    for path in iter_files(folder):
        yield path.relative_to(folder).as_posix()


def keep_text(stage: Stage, root: Path, made: Answers, rendered: bytes, name: str) -> None:
    """Write to a stage the text of pipeline.yml from which the files before the change were made, as TEXT or LEFT.

    That is the text that was applied last, with its comments, or the rendered one if that text is not known.
    """
    for path in (prepare(root) / TEXT, root / TEXT):
        with suppress(OSError, UnreadableAnswers):
            if not list_changed_answers(read_answers(path)[0], made):
                rendered = path.read_bytes()
                break
    (stage.folder / name).write_bytes(rendered)


def keep_stage(stage: Stage, root: Path) -> None:
    """Keep the stage of a change that is complete, instead of the last one: only `undo` undoes it from here on."""
    last = root / FOLDER / LAST
    shutil.rmtree(last, ignore_errors=True)
    stage.folder.rename(last)


def undo(root: Path) -> None:
    """Undo the last change in the project in `root`, or raise ChangeError if that can't be done.

    If this is killed, the next command brings the files back, and applies the pipeline.yml that is there.
    """
    folder = root / FOLDER / LAST
    if not (path := next(folder.glob("*.yml"), None)):
        raise ChangeError("there is nothing to undo: the last change is undone, or none was made")
    prepare(root)
    text = path.read_bytes().decode()
    Stage(folder).check(root, "then; undo that first")
    is_changed = path.name == TEXT and text.encode() != (mine := read_bytes(root / TEXT))
    if is_changed:
        keep_edits(root, {TEXT: mine})
    (root / FOLDER / TEXT).write_bytes(text.encode())  # for `keep_text`, if this is killed
    stage = Stage(folder.rename(root / f"{PREFIX}undo"))  # the next command undoes it
    count = stage.undo(root)
    if is_changed:
        replace(root / TEXT, text)
    stage.remove()
    kept = f"; yours is {KEPT}/{TEXT}" if is_changed else ""
    print(f"{f'{TEXT} and ' * is_changed}{count} files are as they were{kept}")
