"""Model files that nothing can make or find: the answers say so, not a traceback."""

from __future__ import annotations

from typing import Any

import pytest
from gatekeeper import Gatekeeper
from support import ROOT, step
from wiring_support import wired

KEEPER = Gatekeeper(ROOT)


def line(backend: str, given: dict[str, Any] | None = None, **fields: Any) -> str:
    """Return why a pipeline of one step is refused."""
    pipeline = wired(step("net", ["A"], ["X"], backend, **fields))
    pipeline["tensors"] |= given or {}
    return KEEPER.line({**pipeline, "gpu_count": 1})  # which TensorRT needs


@pytest.mark.parametrize(
    "fields", [{"file": "model.onnx"}, {"file": "model.plan"}, {"adopted": True}]
)
def test_a_backend_that_triton_finds(fields: dict[str, Any]) -> None:
    assert line("auto", **fields) == ""


@pytest.mark.parametrize("fields", [{}, {"file": "net.bin"}])
def test_a_backend_that_triton_can_not_find(fields: dict[str, Any]) -> None:
    assert "has `backend: auto` and no `file`" in line("auto", **fields)


@pytest.mark.parametrize("tensor", ["A", "X"])
def test_torchscript_has_no_text_tensors(tensor: str) -> None:
    texts = {tensor: "STRING[1]"}
    assert f"step net: has the text tensor {tensor}" in line("pytorch", texts)
    assert line("pytorch", texts, adopted=True) == ""
    assert line("onnxruntime", texts) == ""
