"""Programs that ask at a real terminal, and keys to answer them."""

from __future__ import annotations

import os
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pytest
from support import AUTHOR, COPIER, MATRIX

ENTER, SPACE, DOWN, UP, BACKSPACE = "\r", " ", "\x1b[B", "\x1b[A", "\x7f"
ESCAPE, INTERRUPT, END, CLEAR = "\x1b", "\x03", "\x04", "\x15"
ACCEPT = "\x1b\r"  # Esc, Enter: ends a text of several lines
SIZES = pytest.mark.parametrize(
    "size",
    [
        pytest.param((24, 80), id="80x24"),
        pytest.param((40, 120), id="120x40", marks=MATRIX),
    ],
)


class Terminal:
    """A program in a terminal, by default Copier, and how many questions it was seen to ask."""

    def __init__(
        self,
        command: list[str],
        folder: Path,
        size: tuple[int, int] = (24, 80),
        program: Path = COPIER,
    ) -> None:
        self.asked = 0
        # It would wait a second for each prompt's answer to a question about the cursor.
        environment = {**os.environ, **AUTHOR, "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm"}
        self.process = pexpect.spawn(
            str(program),
            command,
            cwd=folder,
            dimensions=size,
            encoding="utf-8",
            timeout=60,
            env=environment,
        )

    def answer(self, question: str, keys: str = ENTER) -> None:
        self.shows(question)
        self.asked += 1
        self.send(keys)

    def shows(self, text: str) -> None:
        self.process.expect_exact(text)

    def send(self, keys: str) -> None:
        self.process.send(keys)

    def ends(self, name: str) -> None:
        """Wait for the project, and for nothing to be asked before it."""
        self.shows(f"{name} is ready")
        assert "?" not in self.process.before.partition("create")[0].rpartition("\n")[2]
        self.process.expect(pexpect.EOF)
        self.process.close()
        assert self.process.exitstatus == 0
