"""vendor/project.json, read once: what is missing or damaged is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from triton_ensemble.pipeline.rules import rules
from triton_ensemble.project import FILE, Project, ProjectError

FACTS: dict[str, Any] = rules().answered({})["graph"]["facts"]


def load(folder: Path, facts: Any) -> Project:
    (folder / "vendor").mkdir()
    (folder / FILE).write_text(json.dumps(facts))
    return Project.load(folder)


def test_the_facts_of_a_project(tmp_path: Path) -> None:
    project = load(tmp_path, FACTS)
    assert project.ensemble == "image_classification"
    assert project.inputs[0].is_one_text
    assert project.outputs == ("LABEL", "SCORE")


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (FACTS | {"inputs": 3, "batched": "yes"}, "batched, inputs can't be read; restore it: git"),
        (FACTS | {"inputs": [3]}, "restore it: git checkout vendor/project.json"),
        (FACTS | {"adopted": {"m": {"name": "x"}}}, "restore it: git checkout vendor/project.json"),
        ([FACTS], "lacks adopted, all_outputs, batched"),
        ({k: v for k, v in FACTS.items() if k != "engines"}, "lacks engines; run: make update"),
    ],
)
def test_damaged_facts(facts: Any, line: str, tmp_path: Path) -> None:
    with pytest.raises(ProjectError) as caught:
        load(tmp_path, facts)
    assert line in str(caught.value)
