"""The part of the template's changelog, which each wheel carries, that an update prints."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from itertools import pairwise
from pathlib import PurePath

from triton_ensemble.update.aside import Aside

CHANGELOG = "triton_ensemble/CHANGELOG.md"


def read_news(copy: Aside, changed: Iterable[str]) -> list[str]:
    """Return the lines of the changelog that only the new wheel of an update has, under their headings."""
    wheels = [path for path in changed if PurePath(path).match("vendor/*.whl")]
    known = {line for path in wheels for line in _read_changelog(copy.before(path))}
    new = [copy.project / path for path in wheels if (copy.project / path).is_file()]
    lines = [
        line
        for path in new
        for line in _read_changelog(path.read_bytes())
        if line.startswith("## ") or line not in known
    ]
    if not known:
        return []
    return [
        line
        for line, after in pairwise([*lines, "## "])
        if not line.startswith("## ") or not after.startswith("## ")
    ]


def _read_changelog(wheel: bytes) -> list[str]:
    """Return the lines of the changelog that are not empty; nothing if the file is not a wheel, or lacks a changelog."""
    file = io.BytesIO(wheel)
    if not zipfile.is_zipfile(file):
        return []
    with zipfile.ZipFile(file) as archive:
        if CHANGELOG not in archive.namelist():
            return []
        return list(filter(None, archive.read(CHANGELOG).decode().splitlines()))
