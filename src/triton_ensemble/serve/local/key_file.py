"""Files that hold keys, as editors of all systems write them."""

from __future__ import annotations

import codecs
from pathlib import Path


def read_keys(file: Path) -> list[bytes]:
    """Return the lines of a file without empty lines and comments.

    Raise OSError if it can't be read, or ValueError if it is not UTF-8.
    """
    content = file.read_bytes()
    if b"\0" in content or content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError("is UTF-16; save it as UTF-8")
    try:
        content.decode()
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8; save it as UTF-8") from None
    lines = map(bytes.strip, content.removeprefix(codecs.BOM_UTF8).splitlines())
    return [line for line in lines if line and not line.startswith(b"#")]


def explain(error: OSError | ValueError) -> str:
    """Return why a file can't be read, without its name."""
    return str(getattr(error, "strerror", None) or error)
