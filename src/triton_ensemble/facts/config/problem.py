"""Problems in a file: what is wrong, and what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, order=True)
class Problem:
    """The file and the line (from 1 on), what is wrong there, and what to do instead.

    `missing`: a file that is not beside the config, or a placeholder in it, which may come later.
    """

    file: Path
    line: int
    what: str
    instead: str
    missing: bool = False


def did_you_mean(word: str, choices: Iterable[str], otherwise: str) -> str:
    """Return `did you mean X?` if a choice is close to the word, or else `otherwise`."""
    close = difflib.get_close_matches(word, list(choices), 1)
    return f"did you mean {close[0]}?" if close else otherwise
