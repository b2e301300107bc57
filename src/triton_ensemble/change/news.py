"""The part of the template's changelog, which each wheel carries, that an update prints."""

from __future__ import annotations

import zipfile
from pathlib import Path

CHANGELOG = "triton_ensemble/CHANGELOG.md"


def read_news(old: Path, new: Path) -> list[str]:
    """Return the lines of the changelog that only the new wheel has, under their headings."""
    known = {*_read_changelog(old)}
    kept: list[str] = []
    for line in reversed(_read_changelog(new) if known else []):
        below = _level(kept[-1]) if kept else 1
        if _level(line) < below if line.startswith("##") else line not in known:
            kept.append(line)
    return kept[::-1]


def _level(line: str) -> int:
    """Return the level of a heading; a text is below all of them."""
    return len(line) - len(line.lstrip("#")) or 7


def _read_changelog(wheel: Path) -> list[str]:
    """Return the lines of the changelog that are not empty; nothing if the wheel does not have one."""
    with zipfile.ZipFile(wheel) as archive:
        known = CHANGELOG in archive.namelist()
        return [*filter(None, archive.read(CHANGELOG).decode().splitlines())] if known else []
