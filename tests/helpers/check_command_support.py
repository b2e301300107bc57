"""Shared by tests: `triton-ensemble check`: what it prints, its exit status, and what it can't read."""

from __future__ import annotations

GARBAGE = {
    "empty": b"",
    "byte-order mark": b"\xef\xbb\xbf",
    "binary": b"\xf5\0\n\x80",
    "zeros": bytes(3),
}
