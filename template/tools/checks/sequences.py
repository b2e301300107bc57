# Managed by triton-ensemble-template: edits are merged by `make update`.
"""What a config alone says of sequences and of warmup requests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.checks.findings import Finding
from tools.checks.lines import Part
from tools.checks.models import Model, enum_name, nearest

VALUES = ("int32_false_true", "fp32_false_true", "bool_false_true")
IDS = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")
BYTES = {"BOOL": 1, "UINT8": 1, "INT8": 1, "UINT16": 2, "INT16": 2, "FP16": 2, "BF16": 2} | {
    "UINT32": 4,
    "INT32": 4,
    "FP32": 4,
    "UINT64": 8,
    "INT64": 8,
    "FP64": 8,
    "STRING": 4,
}


def sequences(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    if not model.config.HasField("sequence_batching"):
        return
    given, most = model.config.sequence_batching, model.config.max_batch_size
    place = ("sequence_batching",)
    for size in given.oldest.preferred_batch_size:
        if size <= 0 or size > most:
            must = "positive" if size <= 0 else "<= max batch size"
            what = f"sequence batching preferred batch size must be {must} for {model.name}"
            yield model.finding(
                "sequence-batching",
                what,
                f"it is {size}, max_batch_size {most}",
                *place,
                "oldest",
                "preferred_batch_size",
            )
    if not 0 <= given.direct.minimum_slot_utilization <= 1:
        what = f"sequence batching minimum slot utilization must be in range (0.0, 1.0] for {model.name}"
        yield model.finding(
            "sequence-batching", what, "write a share", *place, "direct", "minimum_slot_utilization"
        )
    for i, j, what in control_problems(given):
        inner: tuple[Part, ...] = (("control", j),) if j >= 0 else ()
        yield model.finding(
            "sequence-control",
            f"{what} for {model.name}",
            "see ModelSequenceBatching in Triton's model_config.proto",
            *place,
            ("control_input", i),
            *inner,
        )
    yield from states(model, given)


def control_problems(given: Any) -> Iterator[tuple[int, int, str]]:
    names: set[str] = set()
    kinds: set[str] = set()
    for i, tensor in enumerate(given.control_input):
        if not tensor.name:
            yield i, -1, "sequence batching control tensor must have a name"
        elif tensor.name in names:
            yield (
                i,
                -1,
                f"sequence batching control tensor '{tensor.name}' is specified for multiple control kinds",
            )
        names.add(tensor.name)
        for j, control in enumerate(tensor.control):
            kind = enum_name(control, "kind")
            if kind in kinds:
                yield i, j, f"sequence batching specifies multiple {kind} tensors"
            kinds.add(kind)
            if why := value_problem(control, kind):
                yield i, j, why


def value_problem(control: Any, kind: str) -> str:
    given = [field for field in VALUES if getattr(control, field)]
    if kind == "CONTROL_SEQUENCE_CORRID":
        name = enum_name(control, "data_type")
        if given:
            return f"sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for {kind}"
        return (
            ""
            if name in IDS
            else f"unexpected data type for control {kind}. Allowed data types are {', '.join(IDS)}"
        )
    if not given:
        return f"sequence batching must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for {kind}"
    if len(given) > 1:
        return f"sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and 'bool_false_true' for {kind}"
    if len(getattr(control, given[0])) != 2:
        return f"sequence batching control '{given[0]}' must have exactly 2 entries for {kind}"
    return ""


def states(model: Model, given: Any) -> Iterator[Finding]:
    for i, state in enumerate(given.state):
        for j, first in enumerate(state.initial_state):
            where: tuple[Part, ...] = ("sequence_batching", ("state", i), ("initial_state", j))
            if first.data_type != state.data_type:
                what = f"The data type used for 'initial_state' field of state '{state.input_name}' does not match the state data type"
                yield model.finding(
                    "sequence-state", what, "make them the same", *where, "data_type"
                )
            if not first.WhichOneof("state_data"):
                what = f"The initial state of '{state.input_name}' has no data"
                yield model.finding(
                    "sequence-state", what, "add zero_data: true or a data_file", *where
                )
            elif (
                first.data_file and not (model.folder / "initial_state" / first.data_file).is_file()
            ):
                what = f"failed to open the initial state file initial_state/{first.data_file}"
                yield model.finding("sequence-state", what, "put it there", *where, "data_file")


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
    file: Path = model.folder / "warmup" / data.input_data_file
    kind = enum_name(data, "data_type")
    least = BYTES.get(kind.removeprefix("TYPE_"), 0) * math.prod(data.dims)
    where = (*entry, "value", "input_data_file")
    if not file.is_file():
        what = f"failed to open text file for read {file}: No such file or directory"
        yield model.finding("warmup-data", what, "put it there", *where)
    elif file.stat().st_size < least:
        what = f"warmup setting expects {least} bytes for a row, but the data provided from {data.input_data_file} only has {file.stat().st_size} bytes"
        yield model.finding("warmup-data", what, f"write all {rows} rows", *where)


def fits(given: Any, declared: Any) -> bool:
    return len(given) == len(declared) and all(
        -1 in pair or pair[0] == pair[1] for pair in zip(given, declared, strict=True)
    )
