"""A folder for new files beside the project's, by which a change of files that was killed is undone.

    python -m triton_ensemble.change.stage

undoes it in the current folder. `make` calls this before anything else: the wheel and its hash may be of two versions.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from triton_ensemble.change import ChangeError
from triton_ensemble.facts.reading import (
    MODEL_BYTES,
    is_foreign,
    read_bytes,
    read_json,
)
from triton_ensemble.facts.signals import STOPS
from triton_ensemble.facts.terminal import escape_streams

try:
    import fcntl
except ImportError:  # Windows, where nothing tells of a command that runs at the same time
    fcntl = None  # type: ignore[assignment]

PREFIX = ".make-update-"
JOURNAL = "journal.json"


class Stage:
    """A folder in the project, which git does not see: `new` files by number, and copies of the `old` ones.

    Its journal says which file goes where, from before the first file is changed until all are brought or undone.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._journal = folder, folder / JOURNAL

    @contextmanager
    def write(self, root: Path, contents: Mapping[str, bytes | None]) -> Iterator[None]:
        """Give a project other contents of files, None for a file that goes. Undo it if that or the block fails.

        The changes can be undone from then on, until the stage ends or is removed. A file that is replaced is missing
        at no time. A wheel, whose name is another in each version, goes last: without a Makefile and a wheel, a killed
        update could not be undone.
        """
        wheels_last = sorted(
            contents, key=lambda path: contents[path] is None and path.endswith(".whl")
        )
        contents = {path: contents[path] for path in wheels_last}
        files = [
            (path, *self._prepare(root, number, path, content))
            for number, (path, content) in enumerate(contents.items())
        ]
        self._journal.write_text(json.dumps(files))
        try:
            for number, (path, content) in enumerate(contents.items()):
                target = root / path
                target.parent.mkdir(parents=True, exist_ok=True)
                if content is None:
                    target.unlink(missing_ok=True)
                    _remove_empty_folders(root, path)
                else:
                    self._new(number).replace(target)
            yield
        except BaseException:
            self.undo(root)
            raise

    def _prepare(
        self, root: Path, number: int, path: str, content: bytes | None
    ) -> tuple[str, str]:
        """Copy the old file, write the new one, and return a digest of each."""
        target, old, new = root / path, self._old(number), self._new(number)
        if is_foreign(target, root):
            where = os.path.realpath(target.parent)
            what = f"is in {where} by a link, out of the project or in .git; remove the link"
            raise ChangeError(f"{path}: {what}")
        if target.is_dir() and not target.is_symlink():
            raise ChangeError(f"{path}: is a folder, and a new file has that name; move it")
        if os.path.lexists(target):
            shutil.copy2(target, old, follow_symlinks=False)
        if content is not None:
            new.write_bytes(content)
            with suppress(FileNotFoundError):
                shutil.copymode(target, new)
        return _compute_digest(old), _compute_digest(new)

    def end(self) -> None:
        """Empty the journal: there is nothing to undo any more."""
        self._journal.write_text("")

    def undo(self, root: Path) -> int:
        """Put all files back, by renames, and return how many they are.

        It can be killed itself, and called again. Raise ChangeError if a file was changed since.
        """
        files = self._read(root)
        then = "`git restore {}` takes it back, or remove"
        killed = f"a command that was killed; {then} {self.folder.name}, and all stays as it is"
        self.check(root, killed)
        for number, (path, before, _) in reversed([*enumerate(files)]):
            self._put_back(root, number, path, before)
        self.end()
        return len(files)

    def check(self, root: Path, since: str) -> None:
        """Raise ChangeError, with what to do, if a file was changed since."""
        for path, before, after in self._read(root):
            if _compute_digest(root / path) not in ("", before, after):
                raise ChangeError(f"{path}: was changed since {since.format(path)}")

    def remove(self) -> None:
        """Remove the folder, unless files in it are to be put back."""
        if not self._load():
            shutil.rmtree(self.folder, ignore_errors=True)

    def _new(self, number: int) -> Path:
        return self.folder / f"new-{number}"

    def _old(self, number: int) -> Path:
        return self.folder / f"old-{number}"

    def _read(self, root: Path) -> list[tuple[str, str, str]]:
        """Return files with both digests, or raise ChangeError if the journal is not of a change of `root`."""
        try:
            files = [(path, before, after) for path, before, after in self._load()]
            is_ours = not any(is_foreign(root / path, root) for path, _, _ in files)
        except (TypeError, ValueError):
            is_ours = False
        if not is_ours or any(map(os.path.islink, (self.folder, self._journal))):
            raise self._refuse()
        return files

    def _load(self) -> Any:
        """Return the content of the journal, or an empty list if no file was changed yet."""
        try:
            return read_json(self._journal) if os.path.lexists(self._journal) else []
        except ValueError:
            return []
        except OSError as error:
            raise self._refuse() from error

    def _refuse(self) -> ChangeError:
        what = "was not written by a change of this project"
        return ChangeError(f"{self._journal}: {what}; remove {self.folder}")

    def _put_back(self, root: Path, number: int, path: str, before: str) -> None:
        target, old = root / path, self._old(number)
        if is_foreign(target, root):  # by a link that was put back just now
            raise self._refuse()
        if not before:
            target.unlink(missing_ok=True)
            _remove_empty_folders(root, path)
        elif _compute_digest(target) != before and os.path.lexists(old):
            target.parent.mkdir(parents=True, exist_ok=True)
            old.replace(target)


@contextmanager
def make_stage(root: Path) -> Iterator[Stage]:
    """Make a folder for a change, and remove it in the end."""
    stage = Stage(Path(tempfile.mkdtemp(prefix=PREFIX, dir=root)))
    try:
        (stage.folder / ".gitignore").write_text("*\n")
        yield stage
    finally:
        stage.remove()


@contextmanager
def alone(root: Path, *, wait: bool = False) -> Iterator[bool]:
    """Keep other commands from changing a project's files, and yield whether a killed command was undone.

    Print a line if one was. If another command changes the files now, wait for it or raise ChangeError. A program that
    replaces this one keeps others away too.
    """
    folder = os.open(root, os.O_RDONLY) if fcntl else -1
    try:
        if fcntl:
            os.set_inheritable(folder, True)
            _lock(folder, wait)
        yield _undo_killed(root)
    finally:
        if fcntl:
            os.close(folder)


def _lock(folder: int, wait: bool) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        what = "another command changes this project"
        if not wait:
            raise ChangeError(f"{what}; wait for its end") from None
        print(f"{what}; waiting for its end", file=sys.stderr)
        fcntl.flock(folder, fcntl.LOCK_EX)


def _undo_killed(root: Path) -> bool:
    stages = [Stage(folder) for folder in sorted(root.glob(f"{PREFIX}*"))]
    count = sum(stage.undo(root) for stage in stages)
    for stage in stages:
        stage.remove()
    undone = f"is undone; {count} files are as they were before it"
    if stages:
        what = undone if count else "had changed no file"
        print(f"a command that was killed {what}", file=sys.stderr)
    return bool(stages)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at a signal that ends a process, until the block ends."""
    before = {number: signal.signal(number, _interrupt) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def file_problem(error: OSError, root: Path) -> str:
    """Return a line on a file that can't be read or written, and what to do if a disk is full."""
    room = f"; make room there and in {tempfile.gettempdir()}, then run it again"
    where = error.filename2 or error.filename or root
    return f"{where}: {error.strerror}{room if error.errno == errno.ENOSPC else ''}"


def _remove_empty_folders(root: Path, removed: str) -> None:
    """Remove the folders of a project that are empty without a removed file."""
    for folder in list(Path(removed).parents)[:-1]:
        with suppress(OSError):  # it is not empty
            (root / folder).rmdir()


def _compute_digest(path: Path) -> str:
    """Return a digest that differs between files, links and executable files, or an empty text if there is none."""
    if not os.path.lexists(path):
        return ""
    mode = path.lstat().st_mode
    content = os.fsencode(os.readlink(path)) if path.is_symlink() else read_bytes(path, MODEL_BYTES)
    return f"{stat.S_IFMT(mode):o} {mode & stat.S_IXUSR:o} {hashlib.sha256(content).hexdigest()}"


def main() -> int:
    """Undo a killed command in the current folder. Print a line and return 1 if that can't be done."""
    try:
        with alone(Path.cwd()):
            return 0
    except (OSError, ChangeError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    escape_streams()
    sys.exit(main())
