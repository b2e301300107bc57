"""What a config alone says of the requests that warm its model up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from triton_ensemble.check.findings import Finding
from triton_ensemble.check.lines import Part
from triton_ensemble.check.models import Model, fits, nearest, row_bytes, unreadable


def warmups(model: Model) -> Iterator[Finding]:
    """Triton asks the model itself, when it loads."""
    assert model.config is not None
    declared = {tensor.name: tensor for tensor in model.config.input}
    for i, sample in enumerate(model.config.model_warmup):
        where: tuple[Part, ...] = (("model_warmup", i),)
        who = f"model_warmup '{sample.name}'"
        if not sample.batch_size:
            yield model.finding(
                "warmup-skipped",
                f"Skipping batch 0 warmup sample '{sample.name}'",
                "write batch_size: 1",
                *where,
            )
            continue
        if sample.batch_size > max(model.config.max_batch_size, 1):
            what = f"inference request batch-size must be <= {model.config.max_batch_size} for '{model.name}', and {who} has {sample.batch_size}"
            yield model.finding("warmup-batch", what, "lower it", *where, "batch_size")
        for name, tensor in declared.items():
            if name not in sample.inputs and not tensor.optional:
                yield model.finding(
                    "warmup-input", f"{who} lacks the required input '{name}'", "add it", *where
                )
        for name in sorted(sample.inputs):
            entry: tuple[Part, ...] = (*where, ("inputs", name))
            if declared and name not in declared:
                what = f"{who} has input '{name}', which the model has not: Triton may crash on it"
                yield model.finding(
                    "warmup-unknown", what, nearest(name, declared, "take it out"), *entry
                )
            else:
                yield from warmup_data(
                    model, name, sample.inputs[name], declared.get(name), sample.batch_size, entry
                )


def warmup_data(
    model: Model, name: str, data: Any, declared: Any, rows: int, entry: tuple[Part, ...]
) -> Iterator[Finding]:
    if any(dim < 0 for dim in data.dims):
        what = (
            f"warmup setting expects all variable-size dimensions are specified for input '{name}'"
        )
        yield model.finding(
            "warmup-data", what, "write a size instead of -1", *entry, "value", "dims"
        )
    elif declared is not None and not fits(data.dims, declared.dims):
        what = f"unexpected shape for input '{name}' for model '{model.name}'. Expected {list(declared.dims)}, got {list(data.dims)}"
        yield model.finding("warmup-data", what, "make them the same", *entry, "value", "dims")
    if declared is not None and data.data_type != declared.data_type:
        what = f"inference input '{name}' data-type of the warmup is not what model '{model.name}' expects"
        yield model.finding("warmup-data", what, "make them the same", *entry, "value", "data_type")
    if not data.WhichOneof("input_data_type"):
        what = f"warmup setting expects input '{name}' to have input_data_type set"
        yield model.finding(
            "warmup-data",
            what,
            "add zero_data: true, random_data: true or an input_data_file",
            *entry,
        )
    elif data.input_data_file:
        yield from file_problem(model, data, rows, entry)


def file_problem(model: Model, data: Any, rows: int, entry: tuple[Part, ...]) -> Iterator[Finding]:
    file, least = model.file("warmup", data.input_data_file), row_bytes(data)
    where = (*entry, "value", "input_data_file")
    if why := unreadable(file):
        yield model.finding("warmup-data", why, "put it there", *where)
    elif file.stat().st_size < least:
        what = f"warmup setting expects {least} bytes for a row, but the data provided from {data.input_data_file} only has {file.stat().st_size} bytes"
        yield model.finding("warmup-data", what, f"write all {rows} rows", *where)
