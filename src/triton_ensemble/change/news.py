"""The part of the template's changelog, which each wheel carries, that an update prints."""

from __future__ import annotations

import io
import zipfile

CHANGELOG = "triton_ensemble/CHANGELOG.md"


def read_news(old: bytes, new: bytes) -> list[str]:
    """Return the lines of the changelog that only the new one of two wheels has, under their headings."""
    known = set(_read_changelog(old))
    return _add_headings(_read_changelog(new), known) if known else []


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
