"""The linter of commit subjects, which `make lint` runs over the history."""

from __future__ import annotations

import runpy

import pytest
from support import ROOT

SUBJECTS = runpy.run_path(str(ROOT / "scripts/subjects.py"))


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ("Count rows before converting them", ""),
        ("C" * 72, ""),
        ("C" * 73, "has 73 characters; write 72 at most"),
        ("Fix: count rows", "has a prefix; begin with a verb"),
        ("Fix(check)!: count rows", "has a prefix; begin with a verb"),
        ("count rows", "begins with a small letter; write a capital"),
        ("Count rows.", "ends with a full stop; drop it"),
    ],
)
def test_a_subject_has_a_form(subject: str, fault: str) -> None:
    assert SUBJECTS["find_faults"](subject) == ([fault] if fault else [])
