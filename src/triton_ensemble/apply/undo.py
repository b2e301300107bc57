"""Brings back the files as they were before pipeline.yml was last applied, without git."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from triton_ensemble.answers import Answers, changed_answers
from triton_ensemble.apply import ApplyError
from triton_ensemble.apply.files import CONFLICTS, FOLDER, KEPT, LAST, TEXT, prepare, remember, save
from triton_ensemble.pipeline.file import replace
from triton_ensemble.update.stage import Stage


def keep_text(stage: Stage, root: Path, made: Answers, rendered: bytes) -> None:
    """Write to a stage the text of pipeline.yml that is undone to.

    That is the text that was applied last, with its comments; if it is not known, the rendered one.
    """
    folder = prepare(root)
    known = folder / TEXT
    text = known.read_bytes() if known.is_file() else rendered
    if changed_answers(yaml.safe_load(text), made):
        text = rendered
    (stage.folder / TEXT).write_bytes(text)
    shutil.rmtree(folder / LAST, ignore_errors=True)


def keep(stage: Stage, root: Path) -> None:
    """Keep the stage of a change that is complete: it can't be undone by mistake any more, but by `undo`."""
    stage.folder.rename(root / FOLDER / LAST)


def undo(root: Path) -> None:
    """Undo the last change in the project in `root`; ApplyError or UpdateError if that can't be done."""
    folder = root / FOLDER / LAST
    stage = Stage(folder)
    if not (folder / TEXT).is_file():
        raise ApplyError("apply: there is nothing to undo: pipeline.yml was not applied here yet")
    text = (folder / TEXT).read_bytes().decode()
    stage.check(root)
    save(root, KEPT, {TEXT: (root / TEXT).read_bytes()})
    count = stage.undo(root)
    replace(root / TEXT, text)
    remember(root)
    shutil.rmtree(root / FOLDER / CONFLICTS, ignore_errors=True)
    shutil.rmtree(folder)
    print(f"pipeline.yml and {count} files are as they were; yours is {FOLDER}/{KEPT}/{TEXT}")
