"""The starting pipeline speech-activity without its model."""

from __future__ import annotations

import sys

from support import PIPELINES, Generate, succeed


def test_its_step_marks_where_speech_starts_and_ends(generate: Generate) -> None:
    project = generate(**PIPELINES["speech activity"])
    printed = succeed(project.run(sys.executable, "-m", "pytest", "-q", "tests/test_steps.py"))
    assert " skipped" not in printed
