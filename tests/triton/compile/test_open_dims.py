"""Placeholders and stand-ins fit what reads them, where a config leaves dims or inputs open."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from support import Generate, Project, serve, step, succeed

BACKENDS = ["python", "onnxruntime", "openvino", "pytorch", "auto", "tensorrt"]
FILE = {"auto": {"file": "model.plan"}}
DIMS = [1, 6, 20]


def writers(max_batch_size: int) -> dict[str, Any]:
    """Each backend writes a tensor with open dims, as YOLO models do, and a step reads it that wants sizes."""
    read = {backend: f"{backend}_READ" for backend in BACKENDS}
    return {
        "project_name": "open",
        "gpu_count": 1,
        "max_batch_size": max_batch_size,
        "tensors": {
            "IMAGE": "FP32[3, 8, 8]",
            **{backend: {"type": "FP32", "dims": DIMS} for backend in BACKENDS},
            **dict.fromkeys(read.values(), "INT64[1]"),
        },
        "steps": [
            *(
                step(
                    f"write-{b}",
                    {"x": "IMAGE"},
                    {"y": {"tensor": b, "dims": [-1, -1, -1]}},
                    b,
                    **FILE.get(b, {}),
                )
                for b in BACKENDS
            ),
            *(step(f"read-{b}", [b], [read[b]], fuse=False) for b in BACKENDS[:-1]),
            {
                "name": "nested",
                "backend": "ensemble",
                "inputs": {"x": {"tensor": "tensorrt", "dims": [-1, -1, 20]}},
                "outputs": {"y": read["tensorrt"]},
                "tensors": {"x": "FP32[-1, -1, 20]", "y": "INT64[1]"},
                "steps": [step("within", {"i": {"tensor": "x", "dims": DIMS}}, {"o": "y"})],
            },
        ],
    }


def answers(project: Project) -> str:
    """Return what `make infer` prints of the answers."""
    process = project.make("infer", "HTTP_PORT=1")
    return succeed(process)


@pytest.mark.slow
@pytest.mark.parametrize("max_batch_size", [0, 4])
def test_placeholders_have_the_sizes_that_are_read(generate: Generate, max_batch_size: int) -> None:
    said = answers(generate(**writers(max_batch_size)))
    for backend in BACKENDS:
        assert f"{backend}_READ" in said


@pytest.mark.slow
def test_a_project_with_such_placeholders_passes_its_tests(generate: Generate) -> None:
    succeed(generate(**writers(0)).make("test"))


@pytest.mark.slow
def test_an_onnx_placeholder_keeps_dims_that_vary(generate: Generate) -> None:
    """ONNX Runtime takes sizes that it can work out for fixed ones, and Triton refuses those."""
    outputs = {"y": {"tensor": "OUT", "dims": [-1, 4, -1]}}
    project = generate(
        max_batch_size=0,
        tensors={"IMAGE": "FP32[1, 3, 8, 8]", "OUT": "FP32[-1, 4, -1]"},
        steps=[step("detect", {"x": "IMAGE"}, outputs, "onnxruntime")],
    )
    assert "OUT" in answers(project)


@pytest.mark.slow
def test_an_optional_bf16_input_that_nothing_feeds_stops_nothing(generate: Generate) -> None:
    inputs = {"x": "A", "scale": {"type": "BF16", "dims": [4], "optional": True}}
    project = generate(
        tensors={"A": "FP32[4]", "B": "FP32[4]"},
        steps=[step("net", inputs, {"y": "B"}, "dali")],
    )
    assert not json.loads((project / "vendor/project.json").read_text())["bf16"]
    assert "B: 0.0 0.0 0.0 0.0" in answers(project)


def in_rows(backend: str) -> list[dict[str, Any]]:
    """Return two steps without a batch dimension, and one that reads from them and has one."""
    one, between, two, out = (f"{backend}_{what}" for what in ("one", "m", "two", "y"))
    read, written = {"tensor": "A", "dims": [-1, 4]}, {"tensor": out, "dims": [-1, 4]}
    more = {"max_batch_size": 0, **FILE.get(backend, {})}
    return [
        step(one, {"x": read}, {"y": between}, backend, **more),
        step(two, {"x": between}, {"y": written}, backend, **more),
        step(f"{backend}_last", [out], [backend], fuse=False),
    ]


@pytest.mark.slow
def test_a_step_without_batch_dimension_answers_as_many_rows(generate: Generate) -> None:
    """It has the rows in its dims, where others have a batch dimension. `bare` leaves both to the model file."""
    project = generate(
        project_name="rows",
        gpu_count=1,
        max_batch_size=8,
        tensors={
            **dict.fromkeys(["A", "bare_y", *(f"{name}_y" for name in BACKENDS)], "FP32[4]"),
            **{f"{name}_m": "FP32[-1, 4]" for name in BACKENDS},
            **dict.fromkeys(["bare", *BACKENDS], "FP32[2]"),
        },
        steps=[
            *(each for backend in BACKENDS for each in in_rows(backend)),
            step("bare", ["A"], ["bare_y"], "onnxruntime", max_batch_size=0, declare=False),
            step("bare_last", ["bare_y"], ["bare"], fuse=False),
        ],
    )
    with serve(project) as server, project.client(server.urls["http"]) as client:
        answer = client.infer({"A": np.ones((3, 4), np.float32)})
    shapes = {name: array.shape for name, array in answer.items()}
    assert shapes == dict.fromkeys(["bare", *BACKENDS], (3, 2))


@pytest.mark.slow
def test_a_project_of_such_steps_passes_its_tests(generate: Generate) -> None:
    succeed(
        generate(
            tensors={
                **dict.fromkeys(["A", "python_y"], "FP32[4]"),
                "python_m": "FP32[-1, 4]",
                "python": "FP32[2]",
            },
            steps=in_rows("python"),
        ).make("test")
    )
