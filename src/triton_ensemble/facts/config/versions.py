"""Versions of a model, as Triton reads and writes the names of their folders."""

from __future__ import annotations

import re

VERSION_LIMIT = 2**63  # versions are 64-bit numbers with a sign


def version_of(folder: str) -> int | None:
    """Return the version that Triton reads from a folder's name: the number that begins it, unless zeros lead it."""
    number = re.match(r"[ \t-\r]*([+-]?[0-9]+)", folder)
    return int(number[1]) if number and (folder == "0" or folder[0] != "0") else None


def folder_of_version(version: int) -> str:
    """Return the folder in which Triton looks for a version, which it takes for a number without a sign."""
    return str(version % (2 * VERSION_LIMIT))
