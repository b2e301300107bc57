"""Shared by tests: the documentation as a site: `make docs`, whose warnings are errors."""

from __future__ import annotations

import re

# What a browser loads of itself; a link waits until somebody follows it.
LOADED = re.compile(
    r"""(?:\bsrc|\bsrcset|<link[^>]*\bhref)=["']?\s*((?:https?:)?//[^"'\s>]+)|url\(["']?((?:https?:)?//[^"')]+)|@import\s+["']([^"']+)"""
)


def foreign(text: str) -> list[str]:
    """Return the addresses of elsewhere that a page or a style loads."""
    return [address for found in LOADED.findall(text) for address in found if address]
