"""The tensors of a model's file, at the prompt: only a tensor that fits is offered or taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from triton_ensemble.author.draft import Draft
from triton_ensemble.author.step_questions import (
    FILE,
    add_described_step,
    check_files,
    questions,
)
from triton_ensemble.facts.project import ProjectError

HEARD = Draft().add_line(
    "listen python: AUDIO FP32[-1] -> MEL FP32[1, 40, 98], OTHER FP32[1, -1, 98], IDS INT64[1, 40, 98]",
    {},
)


@pytest.fixture
def said(tmp_path: Path) -> dict[str, Any]:
    """Return what is said of a step whose file reads FP32[batch, 1, 40, 98]."""
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *dims])
        for name, dims in (("mel", [1, 40, 98]), ("scores", [12]))
    )
    node = helper.make_node("Identity", ["mel"], ["scores"])
    graph = helper.make_graph([node], "g", [x], [y])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    return {"name": "classify", "backend": FILE, "path": str(tmp_path / "m.onnx")}


def test_only_tensors_that_fit_are_offered(
    said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    offered: list[list[Any]] = []
    show = "triton_ensemble.author.step_questions.questionary.select"
    monkeypatch.setattr(show, lambda question, choices, default: offered.append(choices))
    asked = next(each for each in questions(HEARD, said) if each.key == "input mel")
    asked.show(None)
    assert [choice.value for choice in offered[0]] == ["MEL", "a new tensor"]


@pytest.mark.parametrize(
    ("new", "writes", "wrong"),
    [
        ("NEW FP32[1, 40, 98]", "scores=SCORES FP32[12]", ""),
        ("NEW FP32[-1]", "scores=SCORES FP32[12]", r"NEW is FP32\[-1\], and mel of the model"),
        ("NEW FP32[1, 40, 98]", "scores=SCORES FP32[2]", r"write SCORES FP32\[12\]"),
        ("NEW FP32[1, 40, 98]", "scores=- FP32[2]", r"write scores FP32\[12\]"),
    ],
)
def test_a_text_that_differs_from_the_file_is_refused(
    said: dict[str, Any], new: str, writes: str, wrong: str
) -> None:
    said |= {"input mel": "a new tensor", "new mel": new, "writes": f"{writes}, more=MORE FP32[1]"}
    if wrong:
        with pytest.raises(ProjectError, match=wrong):
            add_described_step(Draft(), said)
    else:
        assert add_described_step(Draft(), said).origins["classify"] == said["path"]


def test_a_known_tensor_that_differs_is_to_change_where_it_is_first_named(
    said: dict[str, Any],
) -> None:
    said |= {"input mel": "a new tensor", "new mel": "IDS", "writes": "scores=SCORES FP32[12]"}
    with pytest.raises(ProjectError, match=r"; write IDS FP32\[1, 40, 98\] in step listen$"):
        add_described_step(HEARD, said)


def test_a_changed_text_is_compared_with_the_file(said: dict[str, Any]) -> None:
    draft = add_described_step(
        HEARD, said | {"input mel": "MEL", "writes": "scores=SCORES FP32[12]"}
    )
    check_files(draft)
    changed = draft.replace_text(draft.text.replace("MEL FP32[1, 40, 98]", "MEL FP32[1, 80, 98]"))
    with pytest.raises(ProjectError, match=r"MEL is FP32\[1, 80, 98\], and mel of the model"):
        check_files(changed)
