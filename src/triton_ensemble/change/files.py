"""The folder .apply/ of a project, which git does not see: what the last change of files replaced, and open conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from triton_ensemble.change import ApplyError
from triton_ensemble.reading import iter_files

FOLDER = ".apply"
LAST = "last"  # the stage of the last change, from which it can be undone
CONFLICTS = "conflicts"  # rendered files, where the owner changed the same lines
KEPT = "kept"  # edited files as they were, and an undone pipeline.yml
TEXT = "pipeline.yml"  # as it was last applied, with its comments


def prepare(root: Path) -> Path:
    """Return the folder, made if it is not there. ApplyError if a link is in it."""
    folder = root / FOLDER
    for path in (folder, *folder.rglob("*")):
        if path.is_symlink() and path.parent != folder / LAST:  # which has links that were replaced
            raise ApplyError(f"{path}: is a link, and files are written there; remove it")
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
    """Keep edited files by their paths in the project; those kept there before get a number behind their name."""
    for path, content in files.items():
        target = prepare(root) / KEPT / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_file() and target.read_bytes() != content:
            names = (target.with_name(f"{target.name}.{number}") for number in count(1))
            target.rename(next(name for name in names if not name.exists()))
        target.write_bytes(content)


def open_conflicts(root: Path) -> Iterator[str]:
    """Yield the paths of files with lines that their owner kept, until the version beside them is removed."""
    folder = root / FOLDER / CONFLICTS
    for path in iter_files(folder):
        yield path.relative_to(folder).as_posix()
