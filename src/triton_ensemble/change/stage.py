"""Where the files of an update wait beside the project's, and how an update that was killed is undone.

    python -m triton_ensemble.change.stage

undoes it in the current folder. `make update` calls this before anything else: the wheel and its
hash may be of two versions.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from triton_ensemble.change.git import UpdateError, git, list_skipped
from triton_ensemble.reading import MODEL_BYTES, is_foreign, read_bytes, read_json
from triton_ensemble.terminal import escape_streams

try:
    import fcntl
except ImportError:  # Windows, where nothing tells of an update that runs at the same time
    fcntl = None  # type: ignore[assignment]

PREFIX = ".make-update-"
JOURNAL = "journal.json"


class Stage:
    """A folder in the project, which git does not see: `new` files by number, and the `old` ones that they replace.

    Its journal says what is brought where, from before the first file is moved until all are brought or undone.
    A process that is at it has a lock on the journal.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._journal = folder, folder / JOURNAL

    def new(self, number: int) -> Path:
        """Return where a file of the update waits."""
        return self.folder / f"new-{number}"

    def old(self, number: int) -> Path:
        """Return where the file is that it replaces."""
        return self.folder / f"old-{number}"

    def begin(self, paths: Iterable[str], indexed: Iterable[str]) -> None:
        """Write the journal: from here on the update can be undone."""
        files = [(path, _compute_digest(self.new(number))) for number, path in enumerate(paths)]
        self._journal.write_text(json.dumps([files, sorted(indexed)]))

    def end(self) -> None:
        """Empty the journal: there is nothing to undo any more."""
        self._journal.write_text("")

    def undo(self, root: Path) -> int:
        """Put all files back, by renames; return how many the update has. UpdateError where one was changed since.

        It can be killed itself, and called again.
        """
        files, indexed = self._read(root)
        for number, (path, digest) in reversed([*enumerate(files)]):
            self._put_back(root, path, digest, number)
        if indexed:
            _restore_index(root, indexed)
        self.end()
        return len(files)

    def check(self, root: Path) -> None:
        """Raise UpdateError if a file was changed since."""
        for number, (path, digest) in enumerate(self._read(root)[0]):
            if _compute_digest(root / path) not in ("", digest, _compute_digest(self.old(number))):
                raise UpdateError(f"{path}: was changed since then; undo that first")

    def remove(self) -> None:
        """Remove the folder, unless files in it are to be put back."""
        if not self._load()[0]:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self, root: Path) -> tuple[list[tuple[str, str]], list[str]]:
        """Return paths and digests of files, and paths that the index changes. UpdateError if a path is not in `root`."""
        content = self._load()
        try:
            files = [(path, digest) for path, digest in content[0]]
            indexed = [*content[1]]
            foreign = [is_foreign(root / path, root) for path in (*dict(files), *indexed)]
        except (LookupError, TypeError, ValueError):
            foreign = [True]
        if any(foreign):
            raise _refuse(self._journal)
        return files, indexed

    def _load(self) -> Any:
        """Return the content of the journal; nothing to undo if no file was moved yet."""
        try:
            return read_json(self._journal)
        except (OSError, ValueError):
            return [], []

    def _put_back(self, root: Path, path: str, digest: str, number: int) -> None:
        target, old, new = root / path, self.old(number), self.new(number)
        if is_foreign(target, root):  # by a link that was put back just now
            raise _refuse(self._journal)
        if os.path.lexists(old):
            if _compute_digest(target) not in ("", digest, _compute_digest(old)):
                raise UpdateError(
                    f"{path}: was changed since a `make update` that was killed; `git restore {path}` takes it back, "
                    f"or remove {self.folder.name}, and all stays as it is"
                )
            target.parent.mkdir(parents=True, exist_ok=True)
            old.replace(target)
            if not target.is_symlink():
                os.utime(target)  # for make: an environment with the other wheel is outdated
        elif digest and not os.path.lexists(new) and _compute_digest(target) == digest:
            target.unlink()
        if not os.path.lexists(target):
            remove_empty_folders(root, [path])


def _restore_index(root: Path, paths: list[str]) -> None:
    """Let git's index have files as committed, and outside the sparse checkout, also if git noticed them there."""
    literal = "--literal-pathspecs"
    if git(root, literal, "diff", "--cached", "--name-only", "--", *paths):
        git(root, literal, "reset", "--quiet", "--", *paths)
    skipped = list_skipped(root)
    if absent := [p for p in paths if p not in skipped and not os.path.lexists(root / p)]:
        skip = ("update-index", "-z", "--skip-worktree", "--stdin")
        git(root, *skip, given=os.fsencode("\0".join(absent)))


@contextmanager
def make_stage(root: Path) -> Iterator[Stage]:
    """Make a folder for an update, and remove it in the end."""
    stage = Stage(Path(tempfile.mkdtemp(prefix=PREFIX, dir=root)))
    try:
        with _lock(stage.folder):
            (stage.folder / ".gitignore").write_text("*\n")
            yield stage
    finally:
        stage.remove()


@contextmanager
def take_up(root: Path, kept: Path) -> Iterator[Stage]:
    """Prepare the stage of a kept change, so that the next command undoes it; remove it in the end."""
    with _lock(kept):
        stage = Stage(kept.rename(root / f"{PREFIX}undo"))
        yield stage
        stage.remove()


def undo_killed(root: Path) -> Iterator[str]:
    """Undo updates that were killed, with a line for each; UpdateError where one still runs."""
    for folder in sorted(root.glob(f"{PREFIX}*")):
        stage = Stage(folder)
        with _lock(folder):
            count = stage.undo(root)
            stage.remove()
        undone = f"is undone; {count} files are as they were before it"
        yield f"update: one that was killed {undone if count else 'had changed no file'}"


@contextmanager
def alone(root: Path, *, wait: bool = False) -> Iterator[None]:
    """Keep other commands from changing a project's files. If one does so now, wait for it or raise UpdateError."""
    if not fcntl:
        yield
        return
    folder = os.open(root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            what = "another command changes this project"
            if not wait:
                raise UpdateError(f"{what}; wait for its end") from None
            print(f"apply: {what}; waiting for its end", file=sys.stderr)
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    journal = folder / JOURNAL
    if any(map(os.path.islink, (folder, journal))) or (journal.exists() and not journal.is_file()):
        raise _refuse(journal)
    with journal.open("a") as file:
        try:
            if fcntl:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UpdateError(
                "update: another update runs in this project; wait for its end"
            ) from error
        yield


def _refuse(journal: Path) -> UpdateError:
    what = "was not written by an update of this project"
    return UpdateError(f"{journal}: {what}; remove {journal.parent}")


def file_problem(error: OSError, root: Path) -> str:
    """Return a line on a file that can't be read or written, and what to do if a disk is full."""
    room = f"; make room there and in {tempfile.gettempdir()}, then run it again"
    where = error.filename2 or error.filename or root
    return f"{where}: {error.strerror}{room if error.errno == errno.ENOSPC else ''}"


def remove_empty_folders(root: Path, removed: Iterable[str]) -> None:
    """Remove the folders of a project that are empty without the removed files."""
    for path in removed:
        for folder in list(Path(path).parents)[:-1]:
            with suppress(OSError):  # it is not empty
                (root / folder).rmdir()


def _compute_digest(path: Path) -> str:
    """Return a digest that differs between files, links and executable files; empty if there is none."""
    if not os.path.lexists(path):
        return ""
    mode = path.lstat().st_mode
    content = os.fsencode(os.readlink(path)) if path.is_symlink() else read_bytes(path, MODEL_BYTES)
    return f"{stat.S_IFMT(mode):o} {mode & stat.S_IXUSR:o} {hashlib.sha256(content).hexdigest()}"


def main() -> int:
    """Undo what was killed in the current folder; 1 after a line where that can't be."""
    try:
        for line in undo_killed(Path.cwd()):
            print(line, file=sys.stderr)
    except (OSError, UpdateError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    escape_streams()
    sys.exit(main())
