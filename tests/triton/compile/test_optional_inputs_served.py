"""An ONNX step with an input that requests may leave out, on a real Triton."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from support import NOWHERE, Generate, Project, step, succeed


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    """Return a project whose one sample leaves the optional input out."""
    tensors = {"X": "FP32[4]", "HINT": {"type": "FP32", "dims": [2], "optional": True}}
    net = step("net", {"x": "X", "hint": "HINT"}, {"y": "Y"}, "onnxruntime")
    project = generate(
        project_name="hinted", max_batch_size=0, tensors={**tensors, "Y": "FP32[4]"}, steps=[net]
    )
    (project / "samples/one.json").write_text('{"inputs": {"X": [1, 2, 3, 4]}}')
    return project


@pytest.fixture
def file(project: Project) -> Iterator[Path]:
    """Yield the path of the model's file, which is there, and put it back."""
    succeed(project.make("repository"))
    path = project / "model_repository/net/1/model.onnx"
    before = path.read_bytes()
    yield path
    path.write_bytes(before)


@pytest.mark.slow
def test_the_placeholder_answers_without_an_optional_input(project: Project) -> None:
    assert "Y: 0.0 0.0" in succeed(project.make("infer", f"HTTP_PORT={NOWHERE}"))


@pytest.mark.slow
def test_the_placeholder_passes_the_linters(project: Project) -> None:
    succeed(project.make("lint"))


@pytest.mark.slow
def test_a_file_that_needs_an_optional_input_is_refused(project: Project, file: Path) -> None:
    x, hint, y = (
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype("f4")), dims)
        for name, dims in (("x", [4]), ("hint", [2]), ("y", [4]))
    )
    nodes = [
        helper.make_node("ReduceSum", ["hint"], ["total"], keepdims=0),
        helper.make_node("Add", ["x", "total"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "needs", [x, hint], [y])
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), file)
    process = project.make("infer", f"HTTP_PORT={NOWHERE}")
    assert process.returncode
    assert "input hint is optional in config.pbtxt, and the graph has no default" in process.stderr
