"""Brings the files of an update into the project: all of them, or none."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from pathlib import Path
from types import FrameType

from triton_ensemble.change.git import UpdateError, git
from triton_ensemble.change.stage import Stage
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


def write_contents(
    stage: Stage, root: Path, contents: Mapping[str, bytes | None], skipped: Set[str] = frozenset()
) -> None:
    """Give a project other contents of files, None for a file that goes; undo it and raise OSError if that fails.

    Files that go and that a sparse checkout has `skipped` also leave git's index: it does not look for them.
    They can be undone from then on, until the stage ends or is removed.
    """
    _refuse_links(root, contents)
    for number, (path, content) in enumerate(contents.items()):
        if content is not None:
            stage.new(number).write_bytes(content)
            with suppress(FileNotFoundError):
                shutil.copymode(root / path, stage.new(number))
    outside = [path for path in contents if path in skipped]
    stage.begin(contents, outside)
    try:
        for number, path in enumerate(contents):
            swap(root / path, stage.new(number), stage.old(number))
        if paths := "\0".join(path for path in outside if contents[path] is None):
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
