"""The tensors of a config alone, as Triton checks them before it looks at other models (core: model_config_utils.cc)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from triton_ensemble.check.findings import Finding
from triton_ensemble.check.lines import Part
from triton_ensemble.check.models import Model, Setting, enum_name

OUTPUT_TWICE = "26.05"  # the first release that refuses it
BATCH_TYPES = ("TYPE_INT32", "TYPE_FP32")


def tensors(model: Model, setting: Setting) -> Iterator[Finding]:
    assert model.config is not None
    for side, found in (("input", model.config.input), ("output", model.config.output)):
        seen: set[str] = set()
        for i, tensor in enumerate(found):
            yield from tensor_problems(model, side, i, tensor)
            if tensor.name and tensor.name in seen:
                refused = side == "output" and (setting.release or OUTPUT_TWICE) >= OUTPUT_TWICE
                rule = "output-twice" if refused else "tensor-twice"
                what = f"{side} {tensor.name} is declared twice"
                yield model.finding(rule, what, "drop one", (side, i), "name")
            seen.add(tensor.name)
    if model.config.max_batch_size < 0:
        what = f"'max_batch_size' must be non-negative value for {model.name}"
        yield model.finding(
            "max-batch-size", what, "write 0 for no batch dimension", "max_batch_size"
        )


def tensor_problems(model: Model, side: str, i: int, tensor: Any) -> Iterator[Finding]:
    assert model.config is not None
    where: tuple[Part, ...] = ((side, i),)
    who = f"model {side} '{tensor.name}'"
    if not tensor.name:
        yield model.finding("tensor-name", f"model {side} must specify 'name'", "add it", *where)
        return
    if not tensor.data_type:
        yield model.finding(
            "tensor-type", f"{who} must specify 'data_type'", "add it", *where, "data_type"
        )
    if not tensor.dims:
        yield model.finding(
            "tensor-dims",
            f"{who} must specify 'dims'",
            "a single value is dims: [ 1 ]",
            *where,
            "dims",
        )
    if any(dim < 1 and dim != -1 for dim in tensor.dims):
        what = f"{who} dimension must be integer >= 1, or -1 to indicate a variable-size dimension"
        yield model.finding("tensor-dims", what, "write -1 where it varies", *where, "dims")
    elif why := reshape_problem(tensor, model.config.max_batch_size):
        yield model.finding(
            "tensor-reshape", f"{who} {why}", "let both hold as many values", *where, "reshape"
        )
    if side == "input" and tensor.format and len(tensor.dims) != 3:
        what = f"model input NHWC/NCHW require 3 dims, and {tensor.name} has {len(tensor.dims)}"
        yield model.finding(
            "tensor-format", what, "take the format out, or write 3 dims", *where, "format"
        )
    for field in ("is_shape_tensor", "is_non_linear_format_io"):
        if getattr(tensor, field) and model.backend != "tensorrt":
            what = f"{field} of {tensor.name} is only supported for the TensorRT platform"
            yield model.finding("tensor-trt-only", what, "take it out", *where, field)


def reshape_problem(tensor: Any, max_batch_size: int) -> str:
    if not tensor.HasField("reshape"):
        return ""
    shape = tensor.reshape.shape
    if not shape and not max_batch_size:
        return (
            "cannot have empty reshape for non-batching model as scalar tensors are not supported"
        )
    if any(dim < 1 and dim != -1 for dim in shape):
        return (
            "reshape dimensions must be integer >= 1, or -1 to indicate a variable-size dimension"
        )
    ours, theirs = segments(tensor.dims), segments(shape)
    if len(ours) != len(theirs) and len(ours) > 1 < len(theirs):
        return "has different number of variable-size dimensions for dims and reshape"
    return "" if ours == theirs else "has different size for dims and reshape"


def segments(dims: Sequence[int]) -> list[int]:
    """The values between the dims that vary."""
    found: list[list[int]] = [[]]
    for dim in dims:
        if dim == -1:
            found.append([])
        else:
            found[-1].append(dim)
    return [math.prod(part) for part in found]


def batch_io(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    inputs = {tensor.name for tensor in model.config.input}
    outputs = {tensor.name for tensor in model.config.output}
    for side, found in (("input", model.config.batch_input), ("output", model.config.batch_output)):
        for i, each in enumerate(found):
            targets = list(each.target_name)
            unknown = [
                f"unknown source input name '{name}'"
                for name in each.source_input
                if name not in inputs
            ]
            if len(each.source_input) != 1:
                kind = enum_name(each, "kind")
                unknown.append(
                    f"batch {side} kind '{kind}' expects 1 source input, got {len(each.source_input)}"
                )
            if side == "input" and enum_name(each, "data_type") not in BATCH_TYPES:
                unknown.append("batch input data type must be TYPE_INT32 or TYPE_FP32")
            if side == "output":
                unknown += [] if targets else ["it has no target_name, and Triton dies of it"]
                unknown += [
                    f"unknown target output name '{name}'"
                    for name in targets
                    if name not in outputs
                ]
                unknown += [
                    f"target output name '{name}' can only be specified once"
                    for name in dict.fromkeys(targets)
                    if targets.count(name) > 1
                ]
            for what in unknown:
                yield model.finding(
                    "batch-io",
                    what,
                    "name an input and outputs that the model has",
                    (f"batch_{side}", i),
                )
