"""vendor/project.json, read once: what is missing or damaged is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from triton_ensemble.compile.rules import rules
from triton_ensemble.facts.project import FILE, Project, ProjectError

FACTS: dict[str, Any] = rules().answer({})["graph"]["facts"]


def load(folder: Path, facts: Any) -> Project:
    (folder / "vendor").mkdir()
    (folder / FILE).write_text(json.dumps(facts))
    return Project.load(folder)


def test_the_facts_of_a_project(tmp_path: Path) -> None:
    project = load(tmp_path, FACTS)
    assert project.ensemble == "image_classification"
    assert project.inputs[0].is_one_text
    assert project.outputs == ("LABEL", "SCORE")


RESTORE = "; restore it: git checkout vendor/project.json"


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ([FACTS], f"it is [{json.dumps(FACTS)[:39]}, not an object{RESTORE}"),
        (FACTS | {"batched": "yes"}, f'batched is "yes", not true or false{RESTORE}'),
        (FACTS | {"inputs": 3}, f"inputs is 3, not a list{RESTORE}"),
        (FACTS | {"inputs": [3]}, f"inputs[0] is 3, not an object{RESTORE}"),
        (
            FACTS | {"inputs": [FACTS["inputs"][0] | {"dims": [1, "x"]}]},
            f'inputs[0].dims[1] is "x", not an integer{RESTORE}',
        ),
        (FACTS | {"step_modules": {"m/1": None}}, f"step_modules.m/1 is null, not a list{RESTORE}"),
        (FACTS | {"adopted": {"m": {"file": "x", "script": ""}}}, "adopted.m lacks data, versions"),
        ({k: v for k, v in FACTS.items() if k != "engines"}, "lacks engines; run: make update"),
    ],
)
def test_damaged_facts(facts: Any, line: str, tmp_path: Path) -> None:
    with pytest.raises(ProjectError) as caught:
        load(tmp_path, facts)
    assert str(caught.value).startswith(f"{tmp_path / FILE}: {line}")


def test_a_merge_that_left_its_markers(tmp_path: Path) -> None:
    (tmp_path / "vendor").mkdir()
    (tmp_path / FILE).write_text('{\n<<<<<<< before updating\n  "ensemble": "e"\n')
    with pytest.raises(ProjectError) as caught:
        Project.load(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / FILE}: Expecting property name")
    assert str(caught.value).endswith(f"line 2 column 1 (char 2){RESTORE}")
