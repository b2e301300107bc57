"""Shared by tests: what is written: which files, in which form, and that it passes its own linters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import (
    PIPELINES,
    Generate,
    Project,
    step,
)

TEN: dict[str, Any] = {
    "project_name": "ten",
    "tensors": {f"T{i}": "FP32[1]" for i in range(11)},
    "steps": [step(f"s{i}", [f"T{i}"], [f"T{i + 1}"]) for i in range(10)],
}


@pytest.fixture(scope="module", params=PIPELINES)
def project(request: pytest.FixtureRequest, generate: Generate) -> Project:
    return generate(**PIPELINES[request.param])


def fan(steps: int, name: str = "_") -> dict[str, Any]:
    """Steps beside each other, which read what the first one reads."""
    inputs, outputs = ([f"{side}{name}{i}" for i in range(steps)] for side in ("IN", "OUT"))
    beside = [
        step(f"s{name}{i}", inputs[: 2 + i % 3] if i else inputs, [outputs[i]])
        for i in range(steps)
    ]
    specs = dict.fromkeys(inputs, "FP32[4]") | dict.fromkeys(outputs, "STRING[1]")
    return {"tensors": specs, "steps": beside}


def without_answers(folder: Path) -> dict[str, bytes]:
    """Return the files but for where a project came from, which differs."""
    contents = Project(folder).contents()
    del contents[".copier-answers.yml"]
    return contents
