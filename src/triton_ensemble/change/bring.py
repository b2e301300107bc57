"""Brings the files of an update into the project: all of them, or none."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType

from triton_ensemble.change.aside import Aside
from triton_ensemble.change.git import UpdateError, git
from triton_ensemble.change.stage import Stage, make_stage, remove_empty_folders
from triton_ensemble.reading import is_foreign
from triton_ensemble.signals import STOPS


class Interruptions:
    """Signals that end a process: each is a KeyboardInterrupt, until `ignore` is called."""

    def __enter__(self) -> Interruptions:
        self._before = {number: signal.signal(number, _interrupt) for number in STOPS}
        return self

    def ignore(self) -> None:
        """Ignore the signals in this process and its children, until the block ends."""
        for number in STOPS:
            signal.signal(number, signal.SIG_IGN)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


SPARSE = "some are outside your sparse checkout; to commit those too: git add --all --sparse"


def bring(copy: Aside, changes: Mapping[str, str]) -> list[str]:
    """Give the project the changed files; raise OSError or UpdateError. Return notes on them.

    The index gets the conflicts, and loses files outside a sparse checkout that the update drops: git does not look
    for those in the project.

    New files are written beside the project's, then all are renamed. Where a step fails, the steps
    before it are undone, by renames: this needs no space on the disk.
    """
    _refuse_links(copy.root, changes)
    with make_stage(copy.root) as stage:
        for number, path in enumerate(changes):
            if changes[path] != "D":
                shutil.copy2(copy.project / path, stage.new(number), follow_symlinks=False)
        skipped = _list_skipped(copy) & changes.keys()
        dropped = {path for path in skipped if changes[path] == "D"}
        conflicts = _write_conflicts(copy)
        stage.begin(changes, dropped | {entry.path for entry in copy.list_unmerged()})
        try:
            for number, path in enumerate(changes):
                swap(copy.root / path, stage.new(number), stage.old(number))
            if conflicts:
                git(copy.root, "update-index", "-z", "--index-info", given=conflicts)
            if dropped:
                paths = os.fsencode("\0".join(dropped))
                git(copy.root, "update-index", "-z", "--force-remove", "--stdin", given=paths)
            stage.end()
        except BaseException:
            stage.undo(copy.root)
            raise
    remove_empty_folders(copy.root, [path for path, status in changes.items() if status == "D"])
    return [SPARSE] if skipped else []


def write_contents(
    stage: Stage, root: Path, contents: Mapping[str, bytes | None], dropped: Iterable[str] = ()
) -> None:
    """Give a project other contents of files, None for a file that goes; undo it and raise OSError if that fails.

    Files `dropped` from outside a sparse checkout also leave git's index, which does not look for them in the project.
    They can be undone from then on, until the stage ends or is removed.
    """
    _refuse_links(root, contents)
    for number, (path, content) in enumerate(contents.items()):
        if content is not None:
            stage.new(number).write_bytes(content)
            with suppress(FileNotFoundError):
                shutil.copymode(root / path, stage.new(number))
    stage.begin(contents, dropped)
    try:
        for number, path in enumerate(contents):
            swap(root / path, stage.new(number), stage.old(number))
        if paths := "\0".join(dropped):
            remove = ("update-index", "-z", "--force-remove", "--stdin")
            git(root, *remove, given=os.fsencode(paths))
    except BaseException:
        stage.undo(root)
        raise


def _refuse_links(root: Path, paths: Iterable[str]) -> None:
    for path in paths:
        if is_foreign(root / path, root):
            where = os.path.realpath(root / Path(path).parent)
            raise UpdateError(
                f"{path}: is in {where} by a link, out of the project or in .git; remove the link"
            )


def swap(target: Path, new: Path, old: Path) -> None:
    """Put a new file, if there is one, in the place of an old one, if there is one.

    A file that is replaced is missing at no time: without its Makefile, a killed update could not be undone.
    """
    if target.is_dir() and not target.is_symlink():
        raise UpdateError(f"{target}: is a folder, and the update has a file there; move it")
    target.parent.mkdir(parents=True, exist_ok=True)
    stays = os.path.lexists(new) and _link(target, old)
    if os.path.lexists(target) and not stays:
        target.rename(old)
    if os.path.lexists(new):
        new.rename(target)


def _link(target: Path, old: Path) -> bool:
    """Give a file a second name; False on a file system without hard links."""
    try:
        os.link(target, old, follow_symlinks=False)
    except OSError:
        return False
    return True


def _write_conflicts(copy: Aside) -> bytes:
    """Return entries for the project's index, after writing what they name into its repository."""
    lines: dict[str, list[str]] = {}
    for mode, blob, stage, path in copy.list_unmerged():
        content = copy.git("cat-file", "blob", blob)
        git(copy.root, "hash-object", "-w", "--stdin", given=content)
        lines.setdefault(path, [f"0 {'0' * len(blob)}\t{copy.prefix}{path}"])
        lines[path].append(f"{mode} {blob} {stage}\t{copy.prefix}{path}")
    entries = [line for of_path in lines.values() for line in of_path]
    return "".join(f"{entry}\0" for entry in entries).encode(errors="surrogateescape")


def _list_skipped(copy: Aside) -> set[str]:
    """Return the files that a sparse checkout leaves out."""
    listed = git(copy.root, "ls-files", "-t", "-z").decode(errors="surrogateescape")
    return {entry[2:] for entry in listed.split("\0") if entry.startswith("S ")}
