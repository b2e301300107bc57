"""The place through which commands print, so that no name, config or server moves the cursor or forges a line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

# Control characters but line breaks and tabs, line separators, overrides of the direction, bytes that are not UTF-8.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape(text: str) -> str:
    r"""Return a text with unsafe characters as Python and YAML write them in quotes, like \x1b."""
    return UNSAFE.sub(lambda found: ascii(found[0])[1:-1], text)


def escape_line(text: str) -> str:
    """Return a text on one line: line breaks and all else that is not printable are escaped too."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shorten(text: str) -> str:
    """Return a text without the middle of what is too long to be read."""
    return text if len(text) <= 400 else f"{text[:200]} ... {text[-150:]}"


class OneLine(Exception):
    """An error whose message is one line, whatever names are in it."""

    def __init__(self, line: object) -> None:
        super().__init__(escape_line(str(line)))


class EscapedStream:
    """A stream that escapes what it writes. Otherwise it is the stream that it wraps."""

    def __init__(self, stream: Any) -> None:
        self._wrapped = stream  # tqdm compares streams by this name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def write(self, text: str) -> int:
        """Write a text, escaped."""
        self._wrapped.write(escape(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts, escaped."""
        self.write("".join(lines))


def escape_streams() -> None:
    """Let this process print escaped texts only, its last traceback included."""
    streams: tuple[Any, Any] = (EscapedStream(sys.stdout), EscapedStream(sys.stderr))
    sys.stdout, sys.stderr = streams


def find_stream(stream: Any) -> Any:
    """Return the stream that does not escape, for a program that draws."""
    return stream._wrapped if isinstance(stream, EscapedStream) else stream


@contextmanager
def give_streams() -> Iterator[None]:
    """Let the owner's code print what it likes, such as a bar of progress."""
    with redirect_stdout(find_stream(sys.stdout)), redirect_stderr(find_stream(sys.stderr)):
        yield
