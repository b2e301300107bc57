"""The parts of a multipart form (RFC 7578) that is in memory as a whole: by far the quickest way to read small ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

BOUNDARY = re.compile(r';\s*boundary=(?:"([^"]+)"|([^;\s"]+))', re.IGNORECASE)
DISPOSITION = re.compile(rb"(?:^|\r\n)content-disposition:([^\r\n]*)", re.IGNORECASE)
PARAMETER = re.compile(
    rb';\s*(name|filename)=(?:"([^"\\]*(?:\\.[^"\\]*)*)"|([^;\s"]+))', re.IGNORECASE
)
END_OF_HEAD = b"\r\n\r\n"
HEAD_BYTES = 8192  # of a part


class Part(NamedTuple):
    """A field or a file of a form; a field's filename is empty."""

    name: str
    filename: str
    content: bytes


def parts(content_type: str, body: bytes) -> Iterator[Part]:
    """Yield the parts of a request's body one by one; ValueError if it is not a form."""
    if not (found := BOUNDARY.search(content_type)):
        raise ValueError("its Content-Type has no boundary")
    delimiter = b"\r\n--" + (found[1] or found[2]).encode()
    if not body.startswith(delimiter[2:]):
        raise ValueError("it does not begin with its boundary")
    at = len(delimiter) - 2
    while not body.startswith(b"--", at):
        head = body.find(END_OF_HEAD, at, at + HEAD_BYTES)
        content = head + len(END_OF_HEAD)
        end = body.find(delimiter, content)
        if head < 0 or end < 0 or not body.startswith(b"\r\n", at):
            raise ValueError("it ends within a part, or the headers of one are too long")
        yield Part(*_names(body[at:head]), body[content:end])
        at = end + len(delimiter)


def _names(head: bytes) -> tuple[str, str]:
    """Return the name and the file's name that a part's headers say."""
    disposition = DISPOSITION.search(head)
    given = {
        key.lower(): (quoted.replace(b'\\"', b'"') or bare).decode(errors="replace")
        for key, quoted, bare in PARAMETER.findall(disposition[1] if disposition else b"")
    }
    if not given.get(b"name"):
        raise ValueError("a part has no name")
    return given[b"name"], given.get(b"filename", "")
