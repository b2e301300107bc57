"""tests/test_reference.py of projects: what is served, against the original."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import PIPELINES, Generate, Project, slow_but, step, succeed

# A model that weighs its inputs, and an export of it: A and B may be swapped, or a length be the traced one.
MODEL = """# Yours.
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def build(path: Path) -> None:
    shape = ["batch", "length"]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("first", "second")]
    output = helper.make_tensor_value_info("sum", TensorProto.FLOAT, shape)
    weight = numpy_helper.from_array(np.float32([3]), "weight")
    nodes = [helper.make_node("Mul", ["first", "weight"], ["m"]), helper.make_node("Add", ["m", "second"], ["sum"])]
    graph = helper.make_graph(nodes, "g", inputs, [output], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def reference(inputs):
    return {"sum": 3 * inputs["first"] + inputs["second"]}
"""
PIPELINE = """# Yours.
from triton_ensemble.testing.reference import *  # noqa: F403


def pipeline(inputs):
    return {"SUM": 3 * inputs["A"] + inputs["B"]}
"""


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    project = generate(
        max_batch_size=4,
        tensors=dict.fromkeys(("A", "B", "SUM"), "FP32[-1]"),
        steps=[step("weigh", {"first": "A", "second": "B"}, {"sum": "SUM"}, "onnxruntime")],
    )
    (project / "models/weigh.py").write_text(MODEL)
    (project / "tests/test_reference.py").write_text(PIPELINE)
    (project / "samples").mkdir(exist_ok=True)
    (project / "samples/a.json").write_text('{"inputs": {"A": [[1.0, 2.0]], "B": [[5.0, 7.0]]}}')
    return project


@contextmanager
def edited(path: Path, old: str, new: str) -> Iterator[None]:
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new))
    try:
        yield
    finally:
        path.write_text(before)


def tried(project: Project) -> str:
    """Return what the project's reference tests print."""
    succeed(project.make("repository"))
    tests = ("-p", "no:cacheprovider", "-rs", "--verbose", "tests/test_reference.py")
    return project.run(sys.executable, "-m", "pytest", *tests).stdout


@pytest.mark.slow
def test_what_is_equal_passes(project: Project) -> None:
    printed = tried(project)
    assert " 5 passed" in printed
    for rows in (1, 2, 4):
        assert f"test_a_model_file_answers_as_its_original[weigh-{rows} rows] PASSED" in printed


@pytest.mark.slow
def test_an_export_with_two_inputs_swapped_is_found(project: Project) -> None:
    with edited(project / "models/weigh.py", '("first", "second")]', '("second", "first")]'):
        assert " 5 passed" in tried(project)  # a model's inputs go by their names
    with (
        edited(
            project / "models/weigh.py", '["first", "weight"], ["m"]', '["second", "weight"], ["m"]'
        ),
        edited(project / "models/weigh.py", '["m", "second"]', '["m", "first"]'),
    ):
        printed = tried(project)
    assert "models/weigh.py, 1 rows, length 2: its file answers unlike its reference():" in printed
    assert (
        "sample a is answered unlike pipeline() of the original:\nSUM[0, 0]: expected 8.0, got 16.0"
        in printed
    )


@pytest.mark.slow
def test_a_pipeline_that_swaps_them_is_found(project: Project) -> None:
    with edited(
        project / "tests/test_reference.py",
        '3 * inputs["A"] + inputs["B"]',
        '3 * inputs["B"] + inputs["A"]',
    ):
        printed = tried(project)
    assert " 2 failed, 3 passed" in printed


@pytest.mark.slow
def test_a_length_at_which_the_export_is_wrong_is_found(project: Project) -> None:
    """As torch's export was: it kept what it had seen of one length."""
    traced = 'inputs["second"] + 0.01 * (inputs["first"].shape[1] > 8)'
    with edited(
        project / "models/weigh.py",
        '3 * inputs["first"] + inputs["second"]',
        f'3 * inputs["first"] + {traced}',
    ):
        printed = tried(project)
    assert "length 16: its file answers unlike its reference():" in printed
    assert "length 5: " not in printed


@pytest.mark.slow
def test_tolerances_ranges_and_lengths_are_the_owners(project: Project) -> None:
    with (
        edited(project / "models/weigh.py", '3 * inputs["first"]', '3.01 * inputs["first"]'),
        edited(
            project / "tests/test_reference.py",
            "# Yours.",
            'TOLERANCES = {"sum": {"atol": 1}}',
        ),
    ):
        assert " 5 passed" in tried(project)
    limits = 'LENGTHS = (3,)\nRANGES = {"first": (40, 50)}\n'
    wrong = 'inputs["second"] + (1 if inputs["first"].min() > 39 and inputs["first"].shape[1] == 3 else 0)'
    with (
        edited(project / "models/weigh.py", "# Yours.", limits),
        edited(project / "models/weigh.py", 'inputs["second"]}', f"{wrong}}}"),
    ):
        assert "1 rows, length 3: its file answers unlike" in tried(project)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    slow_but("my own", names=["my own", "chain", "torchscript", "fan", "no batch dimension"]),
)
def test_stubs_come_with_it(generate: Generate, name: str) -> None:
    project = generate(**PIPELINES[name])
    printed = tried(project)
    assert "failed" not in printed
    assert "test_a_model_file_answers_as_its_original[" in printed
