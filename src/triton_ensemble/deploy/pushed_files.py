"""The files of a model repository that a bucket gets, and their digests."""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from triton_ensemble.deploy import PushError
from triton_ensemble.facts.project import Project, list_foreign
from triton_ensemble.facts.reading import iter_files
from triton_ensemble.serve.model_files import UNFINISHED
from triton_ensemble.serve.sources import copies

# What `make repository`, Python, file managers and editors leave beside the models' files.
LEFT_OUT = (
    ".built*",
    ".gitignore",
    "__pycache__",
    "*.py[co]",
    f"{UNFINISHED}*-*",
    ".DS_Store",
    "*~",
    "#*#",
    ".#*",
    ".*.sw?",
)
BLOCK_BYTES = 1 << 20


class Content(NamedTuple):
    """The content of a file: its SHA-256, as hexadecimal digits, and its size in bytes."""

    sha256: str
    size: int


def files(project: Project) -> dict[str, Content]:
    """Return the content of each file by its path in the repository.

    Raise PushError for files that a bucket would lose.
    """
    found = {str(path.relative_to(project.repository)): path for path in _paths(project.repository)}
    foreign = list_foreign(found.values(), project.repository)
    problems = foreign or [*_find_empty_files(project, found), *_find_empty_folders(project)]
    if problems:
        raise PushError("\n".join(problems))
    return {name: content(path) for name, path in sorted(found.items())}


def content(path: Path) -> Content:
    """Return what a file holds."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            size += len(block)
    return Content(digest.hexdigest(), size)


def _paths(folder: Path) -> Iterator[Path]:
    for path in iter_files(folder):
        if all(map(_belongs, path.relative_to(folder).parts)):
            yield path


def _belongs(name: str) -> bool:
    return not any(fnmatch.fnmatchcase(name, pattern) for pattern in LEFT_OUT)


def _find_empty_files(project: Project, found: dict[str, Path]) -> Iterator[str]:
    """Yield a line for each empty file, by the name of what its owner has: KServe leaves out such objects."""
    sources = copies(project)
    for path in found.values():
        if not path.stat().st_size:
            own = sources.get(path, path).relative_to(project.root)
            yield f"{own}: is empty, and KServe does not load empty files from a bucket; write a line into it"


def _find_empty_folders(project: Project) -> Iterator[str]:
    """Yield a line for each version folder without a file: a bucket can't have an empty folder."""
    for folder in sorted(project.repository.glob("*/[0-9]*")):
        if folder.is_dir() and next(_paths(folder), None) is None:
            own = folder.relative_to(project.root)
            yield f"{own}: is empty, and a bucket can't have an empty folder; put a file into it, such as a README"
