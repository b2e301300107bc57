"""Tensors"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from triton_ensemble.check.dims import segments
from triton_ensemble.check.examples import BATCHES, A
from triton_ensemble.check.repository import models
from triton_ensemble.check.rule import error, warning
from triton_ensemble.facts import catalog
from triton_ensemble.facts.config import (
    Model,
    Part,
    Problem,
    enum_name,
    type_name,
)

BATCH_TYPES = ("TYPE_INT32", "TYPE_FP32")
A_PLAN = A.replace('"python"', '"tensorrt"')
TRT_ONLY = ("is_shape_tensor", "is_non_linear_format_io")


def tensors(model: Model) -> Iterator[tuple[Any, Part, str]]:
    """Iterate over a model's inputs and outputs: the tensor, its place, and Triton's words for it."""
    for side in ("input", "output"):
        for i, tensor in enumerate(getattr(model.config, side)):
            yield tensor, (side, i), f"model {side} '{tensor.name}'"


@error(
    "max-batch-size",
    of=models,
    triton="`'max_batch_size' must be non-negative value for x`",
    fails='backend: "python"\nmax_batch_size: -1\n',
    passes='backend: "python"\nmax_batch_size: 0\n',
)
def max_batch_size(model: Model) -> Iterator[Problem]:
    """The largest batch is 0, for no batch dimension, or more."""
    if model.config.max_batch_size < 0:
        what = f"'max_batch_size' must be non-negative value for {model.name}"
        yield model.problem(what, "write 0 for no batch dimension", "max_batch_size")


@error(
    "tensor-name",
    of=models,
    triton="`model input must specify 'name'`",
    fails=A.replace('name: "Y" ', ""),
    passes=A,
)
def tensor_name(model: Model) -> Iterator[Problem]:
    """Each input and output has a name."""
    for tensor, place, _ in tensors(model):
        if not tensor.name:
            yield model.problem(f"model {place[0]} must specify 'name'", "add it", place)


@error(
    "tensor-type",
    of=models,
    triton="`model input 'x' must specify 'data_type'`",
    fails=A.replace("data_type: TYPE_FP32 ", "", 1),
    passes=A,
)
def tensor_type(model: Model) -> Iterator[Problem]:
    """Each input and output has a data type."""
    for tensor, place, who in tensors(model):
        if tensor.name and not tensor.data_type:
            yield model.problem(f"{who} must specify 'data_type'", "add it", place, "data_type")


@error(
    "tensor-dims",
    of=models,
    triton="`model input 'x' must specify 'dims'`, `dimension must be integer >= 1, or -1 to indicate a "
    "variable-size dimension`",
    fails=A.replace("[4]", "[0]", 1),
    passes=A.replace("[4]", "[-1]", 1),
)
def tensor_dims(model: Model) -> Iterator[Problem]:
    """Each input and output has dims, of 1 or more, or -1 where the size varies."""
    for tensor, place, who in tensors(model):
        if tensor.name and not tensor.dims:
            what = f"{who} must specify 'dims'"
            yield model.problem(what, "a single value is dims: [ 1 ]", place, "dims")
        elif tensor.name and not _are_sizes(tensor.dims):
            what = (
                f"{who} dimension must be integer >= 1, or -1 to indicate a variable-size dimension"
            )
            yield model.problem(what, "write -1 where it varies", place, "dims")


def _are_sizes(dims: Sequence[int]) -> bool:
    return all(dim >= 1 or dim == -1 for dim in dims)


@error(
    "tensor-reshape",
    of=models,
    triton="`has different size for dims and reshape`, `has different number of variable-size "
    "dimensions for dims and reshape`, `cannot have empty reshape for non-batching model as scalar "
    "tensors are not supported`",
    fails=A.replace("[4]", "[2, -1, 3] reshape { shape: [3, -1, 2] }", 1),
    passes=A.replace("[4]", "[2, -1, 3] reshape { shape: [2, -1, 1, 3] }", 1),
)
def tensor_reshape(model: Model) -> Iterator[Problem]:
    """A reshape has as many values as the dims have, between each two dims that vary."""
    for tensor, place, who in tensors(model):
        checkable = tensor.name and tensor.HasField("reshape") and _are_sizes(tensor.dims)
        if checkable and (why := _check_reshape(tensor, model.config.max_batch_size)):
            instead = "let both hold as many values"
            yield model.problem(f"{who} {why}", instead, place, "reshape")


def _check_reshape(tensor: Any, max_batch_size: int) -> str:
    shape = tensor.reshape.shape
    if not shape and not max_batch_size:
        return (
            "cannot have empty reshape for non-batching model as scalar tensors are not supported"
        )
    if not _are_sizes(shape):
        return (
            "reshape dimensions must be integer >= 1, or -1 to indicate a variable-size dimension"
        )
    sent, seen = segments(tensor.dims), segments(shape)
    if len(sent) != len(seen) and len(sent) > 1 < len(seen):
        return "has different number of variable-size dimensions for dims and reshape"
    return "" if sent == seen else "has different size for dims and reshape"


@error(
    "tensor-format",
    of=models,
    triton="`model input NHWC/NCHW require 3 dims`",
    fails=A.replace("[4]", "[224, 224] format: FORMAT_NCHW", 1),
    passes=A.replace("[4]", "[3, 224, 224] format: FORMAT_NCHW", 1),
)
def tensor_format(model: Model) -> Iterator[Problem]:
    """An input with an image format has 3 dims."""
    for tensor, place, _ in tensors(model):
        if place[0] == "input" and tensor.name and tensor.format and len(tensor.dims) != 3:
            what = f"model input NHWC/NCHW require 3 dims, and {tensor.name} has {len(tensor.dims)}"
            yield model.problem(what, "take the format out, or write 3 dims", place, "format")


@error(
    "tensor-trt-only",
    of=models,
    triton="`shape tensors are only supported for TensorRT platform`, `Non-linear IO format is only "
    "supported for the TensorRT platform`",
    fails=A.replace("[4]", "[4] is_shape_tensor: true", 1),
    passes=A,
)
def tensor_trt_only(model: Model) -> Iterator[Problem]:
    """Only models of TensorRT have shape tensors and non-linear formats."""
    for tensor, place, _ in tensors(model):
        for field in TRT_ONLY if tensor.name and model.backend != "tensorrt" else ():
            if getattr(tensor, field):
                what = f"{field} of {tensor.name} is only supported for the TensorRT platform"
                yield model.problem(what, "take it out", place, field)


@warning(
    "tensor-type-unsupported",
    of=models,
    triton="leaves it to the backend, which fails when it loads the model or when it runs",
    fails=A.replace("FP32", "BF16", 1),
    passes=A,
)
def tensor_type_unsupported(model: Model) -> Iterator[Problem]:
    """The backend has the data types of the model's tensors."""
    known = catalog.backends().get(model.backend)
    for tensor, place, _ in tensors(model):
        if known and type_name(tensor) in known.without:
            what = (
                f"{place[0]} {tensor.name} is {enum_name(tensor, 'data_type')}, "
                f"which {model.backend} does not have"
            )
            yield model.problem(what, "choose another type or backend", place, "data_type")


@error(
    "tensor-optional",
    of=models,
    triton="`'optional' is set to true for input 'x' while the backend model doesn't support optional input`, "
    "`optional input 'x' is not supported for models that support batching`",
    fails={"m": A_PLAN.replace("[4]", "[4] optional: true", 1), "m/1/model.plan": "plan"},
    passes={"m": A_PLAN, "m/1/model.plan": "plan"},
)
def tensor_optional(model: Model) -> Iterator[Problem]:
    """An input is optional only where the backend supports it, as Python does, and ONNX Runtime without batches."""
    known = catalog.backends().get(model.backend)
    batched = model.config.max_batch_size > 0
    if not known or known.optional == "always" or (known.optional == "unbatched" and not batched):
        return
    for i, tensor in enumerate(model.config.input):
        if tensor.optional:
            where = " with a batch dimension" if known.optional == "unbatched" else ""
            what = f"input {tensor.name} is optional, which {model.backend} refuses{where}"
            yield model.problem(what, "drop optional: true", ("input", i), "optional")


@error(
    "batch-io",
    of=models,
    triton="`unknown source input name 'x'`, `batch input kind 'x' expects 1 source input, got 2`, "
    "`batch input data type must be TYPE_INT32 or TYPE_FP32`, `unknown target output name 'x'`; ends "
    "with exit code -11 at a `batch_output` without a `target_name`",
    fails=f'{BATCHES}batch_output {{ target_name: "OUT" source_input: "X" }}\n',
    passes=f'{BATCHES}batch_output {{ target_name: "Y" source_input: "X" }}\n',
)
def batch_io(model: Model) -> Iterator[Problem]:
    """Batch inputs and outputs name tensors that the model has."""
    instead = "name an input and outputs that the model has"
    for side, problems in (("input", _check_batch_inputs), ("output", _check_batch_outputs)):
        for i, each in enumerate(getattr(model.config, f"batch_{side}")):
            for what in (*_check_sources(model, side, each), *problems(model, each)):
                yield model.problem(what, instead, (f"batch_{side}", i))


def _check_sources(model: Model, side: str, each: Any) -> Iterator[str]:
    inputs = {tensor.name for tensor in model.config.input}
    for name in each.source_input:
        if name not in inputs:
            yield f"unknown source input name '{name}'"
    if (count := len(each.source_input)) != 1:
        kind = enum_name(each, "kind")
        yield f"batch {side} kind '{kind}' expects 1 source input, got {count}"


def _check_batch_inputs(model: Model, each: Any) -> Iterator[str]:
    if enum_name(each, "data_type") not in BATCH_TYPES:
        yield "batch input data type must be TYPE_INT32 or TYPE_FP32"


def _check_batch_outputs(model: Model, each: Any) -> Iterator[str]:
    outputs = {tensor.name for tensor in model.config.output}
    targets = list(each.target_name)
    if not targets:
        yield "it has no target_name, and Triton dies of it"
    for name in dict.fromkeys(targets):
        if name not in outputs:
            yield f"unknown target output name '{name}'"
        if targets.count(name) > 1:
            yield f"target output name '{name}' can only be specified once"
