# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The arrays of a call: checked and converted, cut into requests, and joined again."""

import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tritonclient.utils import triton_to_np_dtype  # type: ignore[import-untyped]

from ..tensors import INPUTS, MAX_BATCH_SIZE, MODEL, OUTPUTS, Tensor
from .errors import InvalidInput, ServerFailure

Arrays: TypeAlias = dict[str, NDArray[Any]]
Inputs: TypeAlias = Mapping[str, ArrayLike | None]
Text: TypeAlias = str | bytes
# The values of a text tensor. If a row has only one text, you can pass a list of texts, or one text.
Texts: TypeAlias = Text | Sequence[Text] | Sequence[Sequence[Text]] | NDArray[np.object_ | np.str_]


find_dtype = cache(triton_to_np_dtype)


def text(array: NDArray[np.object_]) -> NDArray[np.str_]:
    """Return the bytes of a text tensor as UTF-8 text, in the same shape."""
    decoded = [bytes(cell).decode(errors="replace") for cell in array.flat]
    return np.array(decoded, dtype=np.str_).reshape(array.shape)


def arrays(inputs: Inputs) -> Arrays:
    """Return a call's inputs as the ensemble takes them; None leaves an optional one out.

    Raises InvalidInput for an input that the ensemble does not have, for a missing input, and for a
    value that does not fit its data type or dims.
    """
    given = {name: value for name, value in inputs.items() if value is not None}
    for name in given:
        _require_known("input", name, INPUTS)
    for name, tensor in INPUTS.items():
        if name not in given and not tensor.optional:
            raise InvalidInput(f"{name} is missing; it is an input of {MODEL}")
    converted = {name: _array(name, INPUTS[name], value) for name, value in given.items()}
    counts = {len(array) for array in converted.values()} if MAX_BATCH_SIZE else {1}
    if len(counts) > 1:
        listed = ", ".join(f"{name} has {len(array)}" for name, array in converted.items())
        raise InvalidInput(f"all inputs must have as many rows; {listed}")
    if 0 in counts:
        raise InvalidInput(f"{next(iter(converted))} has no rows; give one or more")
    return converted


def select_outputs(outputs: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the outputs, all of them for None; raise InvalidInput for an unknown name."""
    names = tuple(OUTPUTS if outputs is None else outputs)
    for name in names:
        _require_known("output", name, OUTPUTS)
    if not names:
        raise InvalidInput("outputs: name one or more, or leave it out for all")
    return names


def _require_known(side: str, name: str, tensors: Mapping[str, Tensor]) -> None:
    if name not in tensors:
        known = ", ".join(tensors)
        raise InvalidInput(f"{name[:99]} is not an {side} of {MODEL}; its {side}s are {known}")


def _array(name: str, tensor: Tensor, value: ArrayLike) -> NDArray[Any]:
    try:
        if tensor.datatype == "BYTES":
            array = np.asarray(_encode(np.asarray(value, object)), object)
        else:
            array = _numbers(value, tensor.datatype)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} is {tensor.datatype}: {error}") from None
    wanted = (-1,) * (MAX_BATCH_SIZE > 0) + tensor.dims
    if _fits(array, wanted):
        return array
    if tensor.dims == (1,):
        array = np.atleast_1d(array)  # a single value is one row
    if array.ndim == len(wanted) - 1 and tensor.dims[-1:] == (1,):
        array = array[..., np.newaxis]  # a list of values, if each row has only one
    elif not array.size and array.ndim < len(wanted):  # an empty list ends before the last dims
        array = array.reshape(*array.shape, *(max(n, 0) for n in wanted[array.ndim :]))
    if not _fits(array, wanted):
        have, want = list(array.shape), list(wanted)
        raise InvalidInput(f"{name} has shape {have}; it must be {want}, where -1 is any number")
    return array


def _fits(array: NDArray[Any], wanted: tuple[int, ...]) -> bool:
    sizes = zip(wanted, array.shape, strict=False)
    return array.ndim == len(wanted) and all(want in (-1, have) for want, have in sizes)


def _bytes(cell: Any) -> bytes:
    if isinstance(cell, str):
        return cell.encode()
    if isinstance(cell, bytes):
        return bytes(cell)  # tritonclient would send NumPy's bytes as the text `b'...'`
    raise TypeError(f"{type(cell).__name__} is not a text; give str or bytes")


_encode = np.frompyfunc(_bytes, 1, 1)


def _numbers(value: ArrayLike, datatype: str) -> NDArray[Any]:
    """Return a value in the tensor's type, if this only rounds floats: 1.5 does not become an integer."""
    given, wanted = np.asarray(value), np.dtype(find_dtype(datatype))
    if given.dtype == np.float64 and wanted == np.uint64:
        with suppress(
            OverflowError, TypeError
        ):  # NumPy takes 2**63 beside a smaller number for floats
            whole = map(operator.index, np.asarray(value, object).flat)
            given = np.fromiter(whole, wanted).reshape(given.shape)
    if given.dtype == wanted:
        return given
    # NumPy has bfloat16 as a type of kind V
    is_rounded = given.dtype.kind in "iuf" and wanted.kind in "fV"
    if given.size and given.dtype.kind in "iu" and wanted.kind in "iu":
        limits = np.iinfo(wanted)
        if int(given.min()) < limits.min or int(given.max()) > limits.max:
            raise ValueError(f"it holds {limits.min} to {limits.max}")
    elif given.size and not (is_rounded or np.can_cast(given.dtype, wanted)):
        raise TypeError(f"the values are {given.dtype}; convert them")
    with np.errstate(over="ignore"):
        converted = given.astype(wanted)
    if is_rounded:
        beyond = np.isinf(converted) & np.isfinite(given)
        if beyond.any():
            raise ValueError(f"{given[beyond][0]:g} is beyond its range")
    return converted


def split(given: Arrays) -> list[range]:
    """Return the rows of each request of a call, at most `max_batch_size`; one empty range without a batch dimension."""
    rows = range(len(next(iter(given.values()), ())) if MAX_BATCH_SIZE else 0)
    if len(rows) <= MAX_BATCH_SIZE:
        return [rows]
    return [rows[start : start + MAX_BATCH_SIZE] for start in rows[::MAX_BATCH_SIZE]]


def part(given: Arrays, rows: range) -> Arrays:
    """Return some rows of a call; the whole call for all rows, and for none, as without a batch dimension."""
    if not rows or len(rows) == len(next(iter(given.values()))):
        return given
    return {name: array[rows.start : rows.stop] for name, array in given.items()}


def join_rows(answers: Sequence[Arrays]) -> Arrays:
    """Return the rows of all answers, in order; raise ServerFailure if their shapes or outputs differ."""
    if len(answers) == 1:
        return answers[0]
    try:
        names = max(answers, key=len)
        return {name: np.concatenate([answer[name] for answer in answers]) for name in names}
    except (KeyError, ValueError):
        reason = "the rows of this call have outputs of different shapes, or different outputs"
        raise ServerFailure(f"{reason}; call with at most {MAX_BATCH_SIZE} rows") from None
