"""The findings of the check."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, order=True)
class Finding:
    """The file and the line (from 1 on), the id of the rule, what is wrong, what to write instead.

    `instead` is empty if what is wrong says that already.
    `severity` is `error` for what Triton refuses or never answers, and `warning` for what it serves
    otherwise than it is written, or not for every request. `missing`: a file may come later, as the
    problem says.
    """

    file: Path
    line: int
    rule: str
    what: str
    instead: str
    severity: str = "error"
    missing: bool = field(default=False, compare=False)

    @property
    def words(self) -> str:
        """The fault and what to write instead, in one text."""
        return "; ".join(filter(None, (self.what, self.instead)))

    @property
    def shown_file(self) -> Path:
        """The path as a person in the current folder names it."""
        here = Path.cwd()
        return self.file.relative_to(here) if self.file.is_relative_to(here) else self.file
