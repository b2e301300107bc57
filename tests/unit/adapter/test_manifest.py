"""step.json of a version folder: one step or several that share a model. A wrong field is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from triton_ensemble.adapter.seams import read_manifest

STEP: dict[str, Any] = {
    "name": "s",
    "module": "s",
    "arrays": "numpy",
    "arguments": {"a": "A"},
    "results": {"y": "Y"},
    "calls": {"m": {"name": "m", "version": 1, "arguments": {"x": "X"}, "outputs": ["Z"]}},
}
TENSOR = {"name": "A", "data_type": "TYPE_FP32", "dims": [2], "optional": False, "tensor": None}
SHARED: dict[str, Any] = {"arrays": "numpy", "steps": [STEP | {"input": [TENSOR], "output": []}]}


def test_one_step_or_several(tmp_path: Path) -> None:
    for content, steps in ((STEP, [STEP]), (SHARED, SHARED["steps"])):
        (tmp_path / "step.json").write_text(json.dumps(content))
        assert read_manifest(tmp_path) == (
            {"arrays": "numpy", "steps": steps},
            content is SHARED,
        )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([STEP], "it is [{"),
        (None, "it is null, not an object; "),
        ({k: v for k, v in STEP.items() if k != "arrays"}, "lacks arrays; "),
        (STEP | {"arguments": ["a"]}, 'arguments is ["a"], not an object; '),
        (
            STEP | {"calls": {"m": STEP["calls"]["m"] | {"version": True}}},
            "calls.m.version is true, ",
        ),
        (STEP | {"calls": {"m": {"name": "m"}}}, "calls.m lacks arguments, outputs, version; "),
        (
            SHARED | {"steps": [SHARED["steps"][0] | {"input": [TENSOR | {"dims": [[2]]}]}]},
            "steps[0].input[0].dims[0] is [2], not an integer; ",
        ),
    ],
)
def test_a_damaged_manifest(content: Any, problem: str, tmp_path: Path) -> None:
    (tmp_path / "step.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"; restore the file from git$") as caught:
        read_manifest(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'step.json'}: {problem}")
