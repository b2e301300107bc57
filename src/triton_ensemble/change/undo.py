"""Brings back the files as they were before pipeline.yml was last applied, without git."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from triton_ensemble.answers import Answers, UnreadableAnswers, list_changed_answers, read_answers
from triton_ensemble.change import ApplyError
from triton_ensemble.change.files import FOLDER, KEPT, LAST, TEXT, keep_edits, prepare, remember
from triton_ensemble.change.stage import Stage, take_up
from triton_ensemble.pipeline.file import replace
from triton_ensemble.reading import read_bytes


def keep_text(stage: Stage, root: Path, made: Answers, rendered: bytes) -> None:
    """Write to a stage the text of pipeline.yml that is undone to.

    That is the text that was applied last, with its comments; if it is not known, the rendered one.
    """
    for path in (prepare(root) / TEXT, root / TEXT):
        with suppress(OSError, UnreadableAnswers):
            if not list_changed_answers(read_answers(path)[0], made):
                rendered = path.read_bytes()
                break
    (stage.folder / TEXT).write_bytes(rendered)


def keep(stage: Stage, root: Path) -> None:
    """Keep the stage of a change that is complete, instead of the last one: only `undo` undoes it from here on."""
    last = root / FOLDER / LAST
    shutil.rmtree(last, ignore_errors=True)
    stage.folder.rename(last)


def undo(root: Path) -> None:
    """Undo the last change in the project in `root`; ApplyError or UpdateError if that can't be done.

    If this is killed, the next command brings the files back, and applies the pipeline.yml that is there.
    """
    folder = root / FOLDER / LAST
    if not (folder / TEXT).is_file():
        raise ApplyError(
            "apply: there is nothing to undo: the last change is undone, or none was applied here"
        )
    prepare(root)
    text = (folder / TEXT).read_bytes().decode()
    Stage(folder).check(root)
    is_changed = text.encode() != (mine := read_bytes(root / TEXT))
    if is_changed:
        keep_edits(root, {TEXT: mine})
    (root / FOLDER / TEXT).write_bytes(text.encode())  # for `keep_text`, if this is killed
    with take_up(root, folder) as stage:
        count = stage.undo(root)
        replace(root / TEXT, text)
    remember(root)
    kept = f"; yours is {FOLDER}/{KEPT}/{TEXT}" if is_changed else ""
    print(f"{f'{TEXT} and ' * is_changed}{count} files are as they were{kept}")
