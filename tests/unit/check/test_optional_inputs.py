"""Optional inputs of models whose backend has none, or has them without a batch dimension alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gatekeeper import Gatekeeper
from model_bytes import ONNX_FILE
from support import ROOT, step
from wiring_support import wired

from triton_ensemble.check import examples
from triton_ensemble.check.rules.engine import check

KEEPER = Gatekeeper(ROOT)


def answers(backend: str, **more: Any) -> dict[str, Any]:
    """Return a pipeline of one step with an optional input."""
    fields = {"fuse": more.pop("fuse")} if "fuse" in more else {}
    pipeline = wired(step("net", ["A", "H"], ["X"], backend, **fields), **more)
    pipeline["tensors"]["H"] = {"type": "FP32", "dims": [4], "optional": True}
    return pipeline


@pytest.mark.parametrize(
    ("backend", "batches", "said"),
    [
        ("onnxruntime", 8, "refuses with batches"),
        ("onnxruntime", 0, ""),
        ("pytorch", 0, "pytorch refuses"),
        ("openvino", 8, "openvino refuses"),
        ("tensorrt", 8, "tensorrt refuses"),
        ("python", 8, ""),
        ("fil", 8, ""),
    ],
)
def test_the_answers_say_which_backends_have_optional_inputs(
    backend: str, batches: int, said: str
) -> None:
    line = KEEPER.line(answers(backend, max_batch_size=batches, gpu_count=1))
    assert (said in line) if said else line == ""


@pytest.mark.parametrize(("batches", "rules"), [(0, set()), (8, {"tensor-optional"})])
def test_onnx_runtime_has_optional_inputs_without_batches_alone(
    tmp_path: Path, batches: int, rules: set[str]
) -> None:
    config = examples.TWO_INPUTS.replace('"python"', f'"onnxruntime" max_batch_size: {batches}')
    files = {"m": config.replace("[4]", "[4] optional: true", 1), "m/1/model.onnx": ONNX_FILE}
    assert {found.rule for found in check(examples.write(files, tmp_path))} == rules
