"""What a config alone says of sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from triton_ensemble.check.findings import Finding
from triton_ensemble.check.lines import Part
from triton_ensemble.check.models import BYTES, Model, enum_name, fits, row_bytes, unreadable

VALUES = ("int32_false_true", "fp32_false_true", "bool_false_true")
IDS = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")
ADD, RENAME = "add it", "take the input out, or give one of them another name"


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
    yield from own_inputs(model, given)
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


def own_inputs(model: Model, given: Any) -> Iterator[Finding]:
    """Triton writes them, so no request can."""
    assert model.config is not None
    declared = {tensor.name for tensor in model.config.input} - {""}
    controls = [tensor.name if tensor.control else "" for tensor in given.control_input]
    states = [state.input_name for state in given.state]
    written = [(("control_input", i), "name", name) for i, name in enumerate(controls)]
    written += [(("state", i), "input_name", name) for i, name in enumerate(states)]
    for place, part, name in written:
        if name in declared:
            what = f"Triton writes the {place[0]} '{name}' over the model's input of that name: it refuses each request, or answers without it"
            yield model.finding("sequence-input", what, RENAME, "sequence_batching", place, part)


def states(model: Model, given: Any) -> Iterator[Finding]:
    for i, state in enumerate(given.state):
        where: tuple[Part, ...] = ("sequence_batching", ("state", i))
        for part, what, instead in state_problems(state):
            yield model.finding("sequence-state", what, instead, *where, part)
        for first in state.initial_state[:1]:
            for part, what, instead in initial_problems(model, state, first):
                yield model.finding("sequence-state", what, instead, *where, "initial_state", part)


def state_problems(state: Any) -> Iterator[tuple[Part, str, str]]:
    """Where, what, and what to do."""
    name, dies = state.input_name, "the model dies of its first request"
    if not name:
        yield "input_name", "a state must have an input_name: Triton dies of its first request", ADD
    if enum_name(state, "data_type").removeprefix("TYPE_") not in BYTES:
        yield "data_type", f"the state of input '{name}' must have a data_type: {dies}", ADD
    if any(dim < -1 for dim in state.dims):
        what = f"the state of input '{name}' has the dims {list(state.dims)}: {dies}"
        yield "dims", what, "write -1 where it varies"
    if (count := len(state.initial_state)) > 1:
        what = f"initial_state field for state input '{name}' must contain exactly one or zero element. Found '{count}' elements"
        yield ("initial_state", 1), what, "drop all but one"


def initial_problems(model: Model, state: Any, first: Any) -> Iterator[tuple[Part, str, str]]:
    name, same = state.input_name, "make them the same"
    if not first.name:
        what = f"Field 'name' must be set when using initial_state for state input '{name}'"
        yield "name", what, ADD
    if first.data_type != state.data_type:
        what = f"The data type used for 'initial_state' field of state '{name}' does not match the state data type"
        yield "data_type", what, same
    if len(first.dims) != len(state.dims):
        what = f"Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions for state input '{name}'"
        yield "dims", what, same
    elif any(dim < 0 for dim in first.dims):
        what = f"'initial_state' field for state input name '{name}' contains variable dimensions"
        yield "dims", what, "write a size instead of -1"
    elif not fits(first.dims, state.dims):
        what = f"'initial_state' dim for input name '{name}' doesn't match 'state' dim description"
        yield "dims", what, same
    if not first.WhichOneof("state_data"):
        what = f"The initial state of '{name}' has no data"
        yield "state_data", what, "add zero_data: true or a data_file"
    elif first.data_file:
        file, least = model.file("initial_state", first.data_file), row_bytes(first)
        if why := unreadable(file):
            yield "data_file", why, "put it there"
        elif (size := file.stat().st_size) < least:
            what = f"initial_state setting expects {least} bytes, but the data provided from {first.data_file} only has {size} bytes"
            yield "data_file", what, "write them all"
