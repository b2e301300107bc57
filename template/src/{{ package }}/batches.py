# Managed by triton-ensemble-template: edits are merged by `make update`.
"""A call's arrays: made of what the caller gives, cut into requests, and put together again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tritonclient.utils import triton_to_np_dtype  # type: ignore[import-untyped]

from .errors import InvalidInput, ServerFailure
from .tensors import INPUTS, MAX_BATCH_SIZE, MODEL, OUTPUTS, Tensor

Arrays: TypeAlias = dict[str, NDArray[Any]]
Inputs: TypeAlias = Mapping[str, ArrayLike | None]
# Of a text tensor; a list of texts will do where a row has just one.
Texts: TypeAlias = (
    Sequence[str | bytes] | Sequence[Sequence[str | bytes]] | NDArray[np.object_ | np.str_]
)


def text(array: NDArray[np.object_]) -> NDArray[np.str_]:
    """The bytes of a text tensor as UTF-8 text, in the same shape."""
    decoded = [bytes(cell).decode(errors="replace") for cell in array.flat]
    return np.array(decoded, dtype=np.str_).reshape(array.shape)


def arrays(inputs: Inputs) -> Arrays:
    """A call's inputs as the ensemble takes them; None leaves an optional one out.

    Raises InvalidInput for an input that the ensemble does not have, one that is missing, and a
    value that does not fit its data type or dims.
    """
    given = {name: value for name, value in inputs.items() if value is not None}
    for name in given:
        if name not in INPUTS:
            known = ", ".join(INPUTS)
            raise InvalidInput(f"{name} is no input of {MODEL}; its inputs are {known}")
    for name, tensor in INPUTS.items():
        if name not in given and not tensor.optional:
            raise InvalidInput(f"{name} is missing; it is an input of {MODEL}")
    found = {name: _array(name, INPUTS[name], value) for name, value in given.items()}
    if MAX_BATCH_SIZE and len({len(array) for array in found.values()}) > 1:
        counts = ", ".join(f"{name} has {len(array)}" for name, array in found.items())
        raise InvalidInput(f"all inputs must have as many rows; {counts}")
    for name, array in found.items():
        if MAX_BATCH_SIZE and not len(array):
            raise InvalidInput(f"{name} has no rows; give one or more")
    return found


def named(wanted: Sequence[str] | None) -> tuple[str, ...]:
    """Names of outputs, all where none are given; InvalidInput for one that the ensemble does not have."""
    names = tuple(OUTPUTS if wanted is None else wanted)
    for name in names:
        if name not in OUTPUTS:
            known = ", ".join(OUTPUTS)
            raise InvalidInput(f"{name} is no output of {MODEL}; its outputs are {known}")
    if not names:
        raise InvalidInput("outputs: name one or more, or leave it out for all")
    return names


def _array(name: str, tensor: Tensor, value: ArrayLike) -> NDArray[Any]:
    try:
        array = _texts(value) if tensor.datatype == "BYTES" else _numbers(value, tensor.datatype)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} is {tensor.datatype}: {error}") from None
    wanted = (-1,) * (MAX_BATCH_SIZE > 0) + tensor.dims
    if array.ndim == len(wanted) - 1 and tensor.dims[-1:] == (1,):
        array = array[..., np.newaxis]  # a list of values, where a row has just one
    fits = [want in (-1, have) for want, have in zip(wanted, array.shape, strict=False)]
    if array.ndim != len(wanted) or not all(fits):
        have, want = list(array.shape), list(wanted)
        raise InvalidInput(f"{name} has shape {have}; it must be {want}, where -1 is any number")
    return array


def _texts(value: ArrayLike) -> NDArray[Any]:
    given = np.asarray(value, dtype=object)
    cells = np.empty(given.size, dtype=object)
    cells[:] = [_bytes(cell) for cell in given.flat]
    return cells.reshape(given.shape)


def _bytes(cell: Any) -> bytes:
    if isinstance(cell, str):
        return cell.encode()
    if isinstance(cell, bytes):
        return bytes(cell)  # tritonclient would send the text `b'...'` of NumPy's own
    raise TypeError(f"{type(cell).__name__} is no text; give str or bytes")


def _numbers(value: ArrayLike, datatype: str) -> NDArray[Any]:
    """In the tensor's type, if that changes no value but by rounding: 1.5 is no integer."""
    given, wanted = np.asarray(value), np.dtype(triton_to_np_dtype(datatype))
    if given.size and given.dtype.kind in "iu" and wanted.kind in "iu":
        limits = np.iinfo(wanted)
        if int(given.min()) < limits.min or int(given.max()) > limits.max:
            raise ValueError(f"it holds {limits.min} to {limits.max}")
    elif given.size and not (_is_rounded(given, wanted) or np.can_cast(given.dtype, wanted)):
        raise TypeError(f"{given.dtype} is none; convert it")
    with np.errstate(over="ignore"):
        found = given.astype(wanted, copy=False)
    if found is not given and _is_rounded(given, wanted):
        beyond = np.isinf(found) & np.isfinite(given)
        if beyond.any():
            raise ValueError(f"{given[beyond][0]:g} is beyond its range")
    return found


def _is_rounded(given: NDArray[Any], wanted: np.dtype[Any]) -> bool:
    # bfloat16 is to NumPy a type of kind V
    return given.dtype.kind in "iuf" and wanted.kind in "fV"


def rows(given: Arrays) -> range:
    """The rows of a call; none where there is no batch dimension."""
    return range(len(next(iter(given.values()), ())) if MAX_BATCH_SIZE else 0)


def part(given: Arrays, wanted: range) -> Arrays:
    """Some rows; all where there is no batch dimension."""
    if not wanted:
        return given
    return {name: array[wanted.start : wanted.stop] for name, array in given.items()}


def parts(given: range) -> list[range]:
    """The rows of each request of a call: no more than the server takes at once."""
    if len(given) <= MAX_BATCH_SIZE:
        return [given]
    return [given[start : start + MAX_BATCH_SIZE] for start in given[::MAX_BATCH_SIZE]]


def joined(answers: Sequence[Arrays]) -> Arrays:
    """The rows of all answers, in order."""
    if len(answers) == 1:
        return answers[0]
    try:
        return {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}
    except ValueError:
        told = "the rows of this call have outputs of different shapes"
        raise ServerFailure(f"{told}; call with at most {MAX_BATCH_SIZE} rows") from None
