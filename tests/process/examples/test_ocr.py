"""The starting pipeline ocr without its models."""

from __future__ import annotations

import sys

from support import PIPELINES, Generate, succeed


def test_its_steps_find_and_cut_out_lines(generate: Generate) -> None:
    project = generate(**PIPELINES["ocr"])
    printed = succeed(project.run(sys.executable, "-m", "pytest", "-q", "tests/test_steps.py"))
    assert " skipped" not in printed
