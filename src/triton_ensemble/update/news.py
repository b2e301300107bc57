"""What an update prints of the template's changelog, which each wheel carries."""

from __future__ import annotations

import zipfile
from itertools import pairwise
from pathlib import Path

CHANGELOG = "triton_ensemble/CHANGELOG.md"


def read_news(old: Path, new: Path) -> list[str]:
    """Return the lines of the changelog that the wheel of project `new` has and that of `old` lacks, under their headings."""
    known = {*_read_changelog(old)}
    lines = [line for line in _read_changelog(new) if line.startswith("## ") or line not in known]
    if not known:
        return []
    return [
        line
        for line, after in pairwise([*lines, "## "])
        if not line.startswith("## ") or not after.startswith("## ")
    ]


def _read_changelog(project: Path) -> list[str]:
    """Return the lines that are not empty; none if the project has no wheel, or one without a changelog."""
    for wheel in filter(zipfile.is_zipfile, project.glob("vendor/*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            if CHANGELOG in archive.namelist():
                return list(filter(None, archive.read(CHANGELOG).decode().splitlines()))
    return []
