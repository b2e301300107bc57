"""Sequences"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from triton_ensemble.check.data_files import check_named_file, has_file, row_bytes
from triton_ensemble.check.dims import is_same_dims
from triton_ensemble.check.examples import BATCHES
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

SEQUENCE = "sequence_batching"
VALUES = ("int32_false_true", "fp32_false_true", "bool_false_true")
CORRELATION_ID = "CONTROL_SEQUENCE_CORRID"
START = (
    'control_input { name: "S" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] } }'
)
STATE = 'state { input_name: "I" output_name: "O" data_type: TYPE_FP32 dims: [4] }'
ADD = "add it"
RENAME = "take one out, or give it another name"
# Triton sets 700 bytes aside for each, in each instance: a million take 0.7 GB and 2 s to load, ten million
# 7 GB and 20 s, and 100 million end it (24.10, 16 GB).
MOST_CANDIDATES = 1_000_000


def _sequence(content: str) -> str:
    return f"{BATCHES}sequence_batching {{\n  {content}\n}}\n"


@error(
    "sequence-batching",
    of=models,
    triton="`sequence batching preferred batch size must be <= max batch size for x`, `sequence batching "
    "minimum slot utilization must be in range (0.0, 1.0] for x`",
    fails=_sequence("oldest { preferred_batch_size: [0] }"),
    passes=_sequence("oldest { preferred_batch_size: [4] }"),
)
def sequence_batching(model: Model) -> Iterator[Problem]:
    """Preferred batch sizes and candidates are within their limits, and the slot utilization is a fraction."""
    given, most = model.config.sequence_batching, model.config.max_batch_size
    for i, size in enumerate(given.oldest.preferred_batch_size):
        if not 0 < size <= most:
            must = "positive" if size <= 0 else "<= max batch size"
            what = f"sequence batching preferred batch size must be {must} for {model.name}"
            instead = f"it is {size}, max_batch_size {most}; drop it or raise that"
            yield model.problem(what, instead, SEQUENCE, "oldest", ("preferred_batch_size", i))
    if given.oldest.max_candidate_sequences > MOST_CANDIDATES:
        what = f"{model.name} sets memory aside for each candidate sequence, 0.7 GB for a million"
        instead = f"write {MOST_CANDIDATES} or less"
        yield model.problem(what, instead, SEQUENCE, "oldest", "max_candidate_sequences")
    slots = given.direct.minimum_slot_utilization
    if slots < 0 or slots > 1:  # Triton takes what is not a number
        what = (
            "sequence batching minimum slot utilization "
            f"must be in range (0.0, 1.0] for {model.name}"
        )
        place = (SEQUENCE, "direct", "minimum_slot_utilization")
        yield model.problem(what, "write a fraction", *place)


@error(
    "sequence-control",
    of=models,
    triton="`sequence batching specifies multiple x tensors`, `sequence batching control tensor 'x' is "
    "specified for multiple control kinds`, `sequence batching must specify either 'int32_false_true', "
    "'fp32_false_true' or 'bool_false_true' for x`, `unexpected data type for control x`",
    fails=_sequence(START.replace(" fp32_false_true: [0, 1]", "")),
    passes=_sequence(START),
)
def sequence_control(model: Model) -> Iterator[Problem]:
    """Each control has a tensor of its own, and the values that it stands for."""
    names: set[str] = set()
    kinds: set[str] = set()
    for i, tensor in enumerate(model.config.sequence_batching.control_input):
        place: tuple[Part, ...] = (SEQUENCE, ("control_input", i))
        if why := _name_problem(tensor.name, names):
            yield _check_control(model, why, *place)
        names.add(tensor.name)
        for j, control in enumerate(tensor.control):
            kind = enum_name(control, "kind")
            if kind in kinds:
                why = f"sequence batching specifies multiple {kind} tensors"
                yield _check_control(model, why, *place, ("control", j))
            kinds.add(kind)
            if why := _check_value(control, kind):
                yield _check_control(model, why, *place, ("control", j))


def _check_control(model: Model, why: str, *place: Part) -> Problem:
    instead = "write two values once, like fp32_false_true: [0, 1]"
    if CORRELATION_ID in why:
        instead = "write data_type: TYPE_UINT64 alone"
    if "multiple" in why or "must have a name" in why:
        instead = "give each kind a control_input with a name of its own"
    return model.problem(f"{why} for {model.name}", instead, *place)


def _name_problem(name: str, others: set[str]) -> str:
    if not name:
        return "sequence batching control tensor must have a name"
    twice = f"sequence batching control tensor '{name}' is specified for multiple control kinds"
    return twice if name in others else ""


def _check_value(control: Any, kind: str) -> str:
    given = [field for field in VALUES if getattr(control, field)]
    either = "either 'int32_false_true', 'fp32_false_true' or 'bool_false_true'"
    if kind == CORRELATION_ID:
        if given:
            return f"sequence batching must not specify {either} for {kind}"
        allowed = [f"TYPE_{name}" for name in catalog.read_correlation_id_types()]
        if enum_name(control, "data_type") in allowed:
            return ""
        return (
            f"unexpected data type for control {kind}. Allowed data types are {', '.join(allowed)}"
        )
    if not given:
        return f"sequence batching must specify {either} for {kind}"
    if len(given) > 1:
        return (
            "sequence batching specifies more than one from 'int32_false_true', "
            f"'fp32_false_true' and 'bool_false_true' for {kind}"
        )
    if len(getattr(control, given[0])) != 2:
        return f"sequence batching control '{given[0]}' must have exactly 2 entries for {kind}"
    return ""


@error(
    "sequence-input",
    of=models,
    triton="puts a control or a state in place of the model's input of that name, and the model gets a type or "
    "shape that it has not declared",
    fails=_sequence(START.replace('"S"', '"X"')),
    passes=_sequence(START),
)
def sequence_input(model: Model) -> Iterator[Problem]:
    """Controls, and states of another type or shape, have other names than the model's inputs."""
    declared = {tensor.name for tensor in model.config.input} - {""}
    given = model.config.sequence_batching
    written: list[tuple[tuple[str, int], str, str]] = [
        (("control_input", i), "name", tensor.name if tensor.control else "")
        for i, tensor in enumerate(given.control_input)
    ]
    written += [
        (("state", i), "input_name", state.input_name)
        for i, state in enumerate(given.state)
        if not _takes_the_place(model, state)
    ]
    for place, part, name in written:
        if name in declared:
            what = (
                f"Triton writes the {place[0]} '{name}' over the model's input of that name: "
                "it refuses each request, or answers without it"
            )
            yield model.problem(what, RENAME, SEQUENCE, place, part)


def _takes_the_place(model: Model, state: Any) -> bool:
    """Return whether a state is written over an input of the model, and fits it."""
    return any(
        tensor.name == state.input_name
        and type_name(tensor) == type_name(state)
        and is_same_dims(tensor.dims, state.dims)
        for tensor in model.config.input
    )


@warning(
    "sequence-state-unseen",
    of=models,
    triton="gives the model one of two tensors: the state in place of the input of that name, or one of two "
    "states with the same `input_name`",
    fails=_sequence(STATE.replace('"I"', '"X"')),
    passes=_sequence(STATE),
)
def sequence_state_unseen(model: Model) -> Iterator[Problem]:
    """A state has an `input_name` that no input and no other state has."""
    names: dict[str, bool] = {}  # whether one has an initial state, of which there may be no second
    for i, state in enumerate(model.config.sequence_batching.state):
        name, place = state.input_name, (SEQUENCE, ("state", i), "input_name")
        if _takes_the_place(model, state):
            what = f"the state '{name}' takes the place of the input of that name, which the model never sees"
            yield model.problem(what, RENAME, *place)
        if name in names and not (names[name] and state.initial_state):
            what = f"two states have the input_name '{name}', and the model sees one of them"
            yield model.problem(what, RENAME, *place)
        names[name] = names.get(name, False) or bool(state.initial_state)


@error(
    "sequence-state",
    of=models,
    triton="`The data type used for 'initial_state' field of state 'x' does not match the state data "
    "type`, `Field 'name' must be set when using initial_state for state input 'x'.`, `'initial_state' "
    "field for state input name 'x' contains variable dimensions.`, `'initial_state' dim for input name "
    "'x' doesn't match 'state' dim description. 2 != 3`, `Number of dimensions in 'initial_state' "
    "doesn't match the size of 'state' dimensions for state input 'x'. 2 != 1`, `initial_state field "
    "for state input 'x' must contain exactly one or zero element. Found '2' elements.`, `State input name "
    "'x' specified more than once.`, `initial_state "
    "setting expects 8 bytes, but the data provided from x only has 4 bytes`; ends at the first request "
    "for a state without an `input_name`, and the model (`Stub process 'x' is not healthy.`) for one "
    "without a `data_type` or `use_growable_memory`, or with dims below -1",
    fails=_sequence(STATE.replace(" data_type: TYPE_FP32", "")),
    passes=_sequence(STATE),
)
def sequence_state(model: Model) -> Iterator[Problem]:
    """A state has a name, a data type and dims, and begins with data of them."""
    names: set[str] = set()
    for i, state in enumerate(model.config.sequence_batching.state):
        where: tuple[Part, ...] = (SEQUENCE, ("state", i))
        if state.initial_state and state.input_name in names:
            what = f"State input name '{state.input_name}' specified more than once"
            yield model.problem(what, "rename it in one of them", *where, "input_name")
        names |= {state.input_name} if state.initial_state else set()
        for part, what, instead in _state_problems(state):
            yield model.problem(what, instead, *where, part)
        for first in state.initial_state[:1]:
            for part, what, instead in (*_check_initial(state, first), *_data(model, first)):
                yield model.problem(what, instead, *where, "initial_state", part)
            if first.data_file:
                file = model.file("initial_state", first.data_file)
                yield from check_named_file(model, file, *where, "initial_state", "data_file")


def _state_problems(state: Any) -> Iterator[tuple[Part, str, str]]:
    """Iterate over the place in a state, what is wrong there, and what to write instead."""
    name, dies = state.input_name, "the model dies of its first request"
    if not name and not state.use_growable_memory:
        yield "input_name", "a state must have an input_name: Triton dies of its first request", ADD
    if type_name(state) not in catalog.read_data_types() and not state.use_growable_memory:
        yield "data_type", f"the state of input '{name}' must have a data_type: {dies}", ADD
    if any(dim < -1 for dim in state.dims):
        what = f"the state of input '{name}' has the dims {list(state.dims)}: {dies}"
        yield "dims", what, "write -1 where it varies"
    if (count := len(state.initial_state)) > 1:
        what = (
            f"initial_state field for state input '{name}' must contain exactly one or zero "
            f"element. Found '{count}' elements"
        )
        yield ("initial_state", 1), what, "drop all but one"


def _check_initial(state: Any, first: Any) -> Iterator[tuple[Part, str, str]]:
    name, same = state.input_name, "make them the same"
    if not first.name:
        what = f"Field 'name' must be set when using initial_state for state input '{name}'"
        yield "name", what, ADD
    if first.data_type != state.data_type:
        what = (
            f"The data type used for 'initial_state' field of state '{name}' "
            "does not match the state data type"
        )
        yield "data_type", what, same
    if len(first.dims) != len(state.dims):
        what = (
            "Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions "
            f"for state input '{name}'"
        )
        yield "dims", what, same
    elif any(dim < 0 for dim in first.dims):
        what = f"'initial_state' field for state input name '{name}' contains variable dimensions"
        yield "dims", what, "write a size instead of -1"
    elif not is_same_dims(first.dims, state.dims):
        what = f"'initial_state' dim for input name '{name}' doesn't match 'state' dim description"
        yield "dims", what, same
    if not first.WhichOneof("state_data"):
        what = f"The initial state of '{name}' has no data"
        yield "state_data", what, "add zero_data: true or a data_file"


def _data(model: Model, first: Any) -> Iterator[tuple[Part, str, str]]:
    file, least = model.file("initial_state", first.data_file), row_bytes(first)
    if has_file(model, file) and (size := file.stat().st_size) < least:
        what = (
            f"initial_state setting expects {least} bytes, "
            f"but the data provided from {first.data_file} only has {size} bytes"
        )
        yield "data_file", what, "write them all"
