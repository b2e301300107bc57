"""Warmup"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from triton_ensemble.check.data_files import (
    check_named_file,
    has_file,
    row_bytes,
    texts_problem,
)
from triton_ensemble.check.dims import is_same_dims
from triton_ensemble.check.examples import A
from triton_ensemble.check.repository import iter_backend_models
from triton_ensemble.check.rule import error, warning
from triton_ensemble.facts.config import (
    Model,
    Part,
    Problem,
    did_you_mean,
    type_name,
)

SAME = "make them the same"
WARMUP = f"""{A}model_warmup {{
  name: "w"
  batch_size: 1
  inputs {{
    key: "X"
    value {{ data_type: TYPE_FP32 dims: [4] zero_data: true }}
  }}
}}
"""


def _samples(model: Model) -> Iterator[tuple[Any, Part]]:
    """Iterate over the requests that are sent, and their places."""
    for i, sample in enumerate(model.config.model_warmup):
        if sample.batch_size:
            yield sample, ("model_warmup", i)


@warning(
    "warmup-skipped",
    of=iter_backend_models,
    triton="`Skipping batch 0 warmup sample 'x'`",
    fails=WARMUP.replace("  batch_size: 1\n", ""),
    passes=WARMUP,
)
def warmup_skipped(model: Model) -> Iterator[Problem]:
    """A warmup request has rows."""
    for i, sample in enumerate(model.config.model_warmup):
        if not sample.batch_size:
            what = f"Skipping batch 0 warmup sample '{sample.name}'"
            yield model.problem(what, "write batch_size: 1", ("model_warmup", i))


@error(
    "warmup-batch",
    of=iter_backend_models,
    triton="`failed to run warmup sample 'x': batch size 9 for 'y', max allowed is 8`; 24.10 may end "
    "by signal 11",
    fails=WARMUP.replace("batch_size: 1", "batch_size: 2"),
    passes=WARMUP,
)
def warmup_batch(model: Model) -> Iterator[Problem]:
    """A warmup request has at most max_batch_size rows, or one row."""
    most = model.config.max_batch_size
    for sample, place in _samples(model):
        if sample.batch_size > max(most, 1):
            what = (
                f"inference request batch-size must be <= {most} for '{model.name}', "
                f"and model_warmup '{sample.name}' has {sample.batch_size}"
            )
            yield model.problem(what, "lower it", place, "batch_size")


@error(
    "warmup-input",
    of=iter_backend_models,
    triton="`expected 1 inputs but got 0 inputs for model 'x'. Got input(s) [], but missing required "
    "input(s) ['y']`",
    fails=f'{A}model_warmup {{ name: "w" batch_size: 1 }}\n',
    passes=WARMUP,
)
def warmup_input(model: Model) -> Iterator[Problem]:
    """A warmup request has all inputs that are not optional."""
    for sample, place in _samples(model):
        for name, tensor in _map_inputs(model).items():
            if name not in sample.inputs and not tensor.optional:
                what = f"model_warmup '{sample.name}' lacks the required input '{name}'"
                yield model.problem(what, "add it", place)


@warning(
    "warmup-unknown",
    of=iter_backend_models,
    triton="leaves the input out, or ends with a segmentation fault while it loads the model",
    fails=WARMUP.replace(
        "  inputs",
        '  inputs { key: "Z" value { data_type: TYPE_FP32 dims: [4] zero_data: true } }\n  inputs',
    ),
    passes=WARMUP,
)
def warmup_unknown(model: Model) -> Iterator[Problem]:
    """A warmup request has only inputs of the model."""
    declared = _map_inputs(model)
    for sample, place in _samples(model):
        for name in sorted(sample.inputs):
            if declared and name not in declared:
                what = (
                    f"model_warmup '{sample.name}' has input '{name}', "
                    "which the model lacks: Triton may crash on it"
                )
                instead = did_you_mean(name, declared, "take it out")
                yield model.problem(what, instead, place, ("inputs", name))


@error(
    "warmup-data",
    of=iter_backend_models,
    triton="`warmup setting expects all variable-size dimensions are specified for input 'x'`, "
    "`unexpected shape for input 'x' for model 'y'. Expected [4], got [5]`, `inference input 'x' "
    "data-type is 'FP64', but model 'y' expects 'FP32'`, `warmup setting expects input 'x' to have "
    "input_data_type set`, `failed to open text file for read x`, `unexpected number of string elements 3 for "
    "inference input 'x' for model 'y', expecting 2`, `incomplete string data for inference input 'x'`",
    fails=WARMUP.replace("dims: [4] zero_data", "dims: [-1] zero_data"),
    passes=WARMUP,
)
def warmup_data(model: Model) -> Iterator[Problem]:
    """The data of a warmup request have the type and the size of the input."""
    declared = _map_inputs(model)
    for sample, place in _samples(model):
        for name in sorted(sample.inputs):
            if declared and name not in declared:
                continue
            data = sample.inputs[name]
            if data.input_data_file:
                file, at = model.file("warmup", data.input_data_file), (place, ("inputs", name))
                yield from check_named_file(model, file, *at, "value", "input_data_file")
            for problems in (
                _check_tensors(model, name, data, declared.get(name)),
                _check_sources(model, name, data, sample.batch_size),
            ):
                for parts, what, instead in problems:
                    yield model.problem(what, instead, place, ("inputs", name), *parts)


def _map_inputs(model: Model) -> dict[str, Any]:
    return {tensor.name: tensor for tensor in model.config.input}


def _check_tensors(
    model: Model, name: str, data: Any, declared: Any
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Iterate over the place in an input, what is wrong there, and what to write instead."""
    if any(dim < 0 for dim in data.dims):
        what = (
            f"warmup setting expects all variable-size dimensions are specified for input '{name}'"
        )
        yield ("value", "dims"), what, "write a size instead of -1"
    elif declared is not None and not is_same_dims(data.dims, declared.dims):
        what = (
            f"unexpected shape for input '{name}' for model '{model.name}'. "
            f"Expected {list(declared.dims)}, got {list(data.dims)}"
        )
        yield ("value", "dims"), what, SAME
    if declared is not None and data.data_type != declared.data_type:
        what = (
            f"inference input '{name}' data-type of the warmup is not what model "
            f"'{model.name}' expects"
        )
        yield ("value", "data_type"), what, SAME


def _check_sources(
    model: Model, name: str, data: Any, rows: int
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    if not data.WhichOneof("input_data_type"):
        what = f"warmup setting expects input '{name}' to have input_data_type set"
        yield (), what, "add zero_data: true, random_data: true or an input_data_file"
    file, least = model.file("warmup", data.input_data_file), row_bytes(data)
    if not has_file(model, file):
        return
    if type_name(data) == "STRING":
        count = math.prod(data.dims)
        if count > 0 and (why := texts_problem(file, count)):
            what = f"{why} for inference input '{name}' in {data.input_data_file}"
            instead = "write the texts of one row, each behind its length in four bytes"
            yield ("value", "input_data_file"), what, instead
    elif (size := file.stat().st_size) < least:
        what = (
            f"warmup setting expects {least} bytes for a row, "
            f"but the data provided from {data.input_data_file} only has {size} bytes"
        )
        yield ("value", "input_data_file"), what, f"write all {rows} rows"
