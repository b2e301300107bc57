"""Read files that somebody else may have written: regular files alone, up to a size.

A FIFO or a device would keep a reader waiting for ever, and a sparse file fills the memory.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

KIB, MIB = 1 << 10, 1 << 20
CODE_BYTES = 256 * KIB  # Python's parser takes seconds for some texts of this size
TEXT_BYTES = MIB  # configs and YAML
DATA_BYTES = 64 * MIB  # samples, labels, locks, records
MODEL_BYTES = 2048 * MIB  # the limit of Protobuf
MOST_FILES = 100_000
DEEPEST = 100  # folders in each other


def read_bytes(path: Path, most: int = TEXT_BYTES) -> bytes:
    """Return the content of a regular file.

    Raise OSError for any other file, and for a file of more than `most` bytes.
    """
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise _make_error(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise _make_error(errno.EINVAL, "is not a regular file", path)
    if status.st_size > most:
        size = f"{most // MIB} MiB" if most >= MIB else f"{most // KIB} KiB"
        raise _make_error(errno.EFBIG, f"has more than {size}", path)
    if not status.st_size:
        return b""  # some files of the kernel keep a reader waiting
    return path.read_bytes()


def read_text(path: Path, most: int = TEXT_BYTES) -> str:
    """Return the text of a file, with characters in place of bytes that are not UTF-8."""
    return read_bytes(path, most).decode(errors="replace")


def read_json(path: Path) -> Any:
    """Return the content of a JSON file, or raise ValueError if it is not JSON or goes too deep."""
    try:
        return json.loads(read_bytes(path, DATA_BYTES).decode())
    except RecursionError:
        raise ValueError("goes too deep; drop some of its brackets") from None


def read_codes(paths: Iterable[Path]) -> Iterator[bytes]:
    """Yield the contents of the Python files that can be read."""
    for path in paths:
        with suppress(OSError):
            yield read_bytes(path, CODE_BYTES)


def is_outside(path: Path, *folders: Path) -> bool:
    """Return whether a path leads out of each of these folders, by its links too, or is not a path."""
    try:
        real = Path(os.path.realpath(path))
        return not any(real.is_relative_to(os.path.realpath(folder)) for folder in folders)
    except ValueError:
        return True


def is_foreign(path: Path, project: Path) -> bool:
    """Return whether a file would be out of a project, by links to its folder too, or in git's folder, whose hooks run."""
    try:
        place = Path(os.path.realpath(path.parent), path.name)
        parts = place.relative_to(os.path.realpath(project)).parts
        return (
            not parts
            or not {"..", ".git"}.isdisjoint(map(str.lower, parts))
            or b"\0" in os.fsencode(path)
        )
    except ValueError:
        return True


def iter_files(folder: Path) -> Iterator[Path]:
    """Yield the regular files in a folder and those below, without following links to folders.

    Raise OSError if they are too many or too deep.
    """
    count = 0
    top = len(folder.parts)
    for root, folders, names in os.walk(folder):
        folders.sort()
        count += len(names) + len(folders)
        if count > MOST_FILES or len(Path(root).parts) - top > DEEPEST:
            what = f"has more than {MOST_FILES} files, or folders more than {DEEPEST} deep"
            raise _make_error(errno.EFBIG, what, folder)
        yield from (path for name in sorted(names) if (path := Path(root, name)).is_file())


def _make_error(number: int, what: str, path: Path) -> OSError:
    return OSError(number, what, str(path))
