"""Shared by tests: bad answers: one line that says where, what and what to write instead, and nothing is written."""

from __future__ import annotations

from typing import Any

from support import step

TENSORS = {"A": "FP32[4]", "B": "FP32[4]"}
STEPS = [step("one", ["A"], ["B"])]
GOOD = {"tensors": TENSORS, "steps": STEPS}


def steps(*given: Any, **tensors: Any) -> dict[str, Any]:
    return {"steps": list(given), "tensors": TENSORS | tensors}


def one(inputs: Any = ("A",), outputs: Any = ("B",), **fields: Any) -> dict[str, Any]:
    """Return the answers of one step, with what is wrong with it."""
    return {"steps": [step("one", _list(inputs), _list(outputs), **fields)]}


def _list(bindings: Any) -> Any:
    return list(bindings) if isinstance(bindings, tuple) else bindings
