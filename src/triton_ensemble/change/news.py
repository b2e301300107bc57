"""The part of the template's changelog, which each wheel carries, that an update prints."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from pathlib import PurePath

from triton_ensemble.change.aside import Aside

CHANGELOG = "triton_ensemble/CHANGELOG.md"


def read_news(copy: Aside, changed: Iterable[str]) -> list[str]:
    """Return the lines of the changelog that only the new wheel of an update has, under their headings."""
    wheels = [path for path in changed if PurePath(path).match("vendor/*.whl")]
    known = {line for path in wheels for line in _read_changelog(copy.read_before(path))}
    new = [copy.project / path for path in wheels if (copy.project / path).is_file()]
    lines = [line for path in new for line in _read_changelog(path.read_bytes())]
    return _add_headings(lines, known) if known else []


def _add_headings(lines: list[str], known: set[str]) -> list[str]:
    """Return the lines that are not known, and the headings above them."""
    kept: list[str] = []
    for line in reversed(lines):
        below = _level(kept[-1]) if kept else 1
        if _level(line) < below if line.startswith("##") else line not in known:
            kept.append(line)
    return kept[::-1]


def _level(line: str) -> int:
    """Return the level of a heading; a text is below all of them."""
    return len(line) - len(line.lstrip("#")) or 7


def _read_changelog(wheel: bytes) -> list[str]:
    """Return the lines of the changelog that are not empty; nothing if the file is not a wheel, or lacks a changelog."""
    file = io.BytesIO(wheel)
    if not zipfile.is_zipfile(file):
        return []
    with zipfile.ZipFile(file) as archive:
        if CHANGELOG not in archive.namelist():
            return []
        return list(filter(None, archive.read(CHANGELOG).decode().splitlines()))
