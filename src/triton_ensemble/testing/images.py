"""Encoded images, told by how their files begin."""

from __future__ import annotations

import re

MAGIC = {
    "png": re.compile(rb"\x89PNG\r\n"),
    "jpeg": re.compile(rb"\xff\xd8\xff"),
    "gif": re.compile(rb"GIF8"),
    "webp": re.compile(rb"(?s)RIFF.{4}WEBP"),
    "tiff": re.compile(rb"II\*\0"),
}


def kind(content: bytes) -> str:
    """Return the format of an image, which is also its media type's, or "" for anything else."""
    return next((kind for kind, magic in MAGIC.items() if magic.match(content)), "")


def suffix(content: bytes) -> str:
    """Return what the name of a file of these bytes ends with."""
    return f".{kind(content) or 'bin'}"
