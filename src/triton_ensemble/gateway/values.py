"""Why nested lists are not a tensor: which row, what is wrong with it, what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import orjson
from tritonclient.utils import triton_to_np_dtype  # type: ignore[import-untyped]

from triton_ensemble.client import Tensor

SHOWN = 40  # characters of a value
TEXT = 'text; write a text, or {"base64": TEXT}'
Shape = tuple[int, ...]


class Problem(NamedTuple):
    """A fault of an input, and the row that has it."""

    text: str
    row: int | None


def problem(name: str, tensor: Tensor, value: object, *, batch: bool) -> Problem | None:
    """Return what is wrong with the lists that are given for a tensor; None where that is something else."""
    rows = list(enumerate(value)) if batch and isinstance(value, list) else [(None, value)]
    shapes = []
    for row, content in rows:
        where = name if row is None else f"{name}, row {row}"
        for cell in _cells(content):
            if not _fits(cell, tensor.datatype):
                return Problem(
                    f"{where}: {_show(cell)} is no {_describe_wanted(tensor.datatype)}", row
                )
        shapes.append(_shape(content))
        if shapes[-1] is None:
            text = f"its lists are not of one length; write lists of shape {list(tensor.dims)}"
            return Problem(f"{where}: {text}", row)
        if shapes[-1] != shapes[0]:
            have, first = list(shapes[-1]), list(shapes[0] or ())
            text = f"has shape {have}, and row 0 {first}; send rows of other shapes by themselves"
            return Problem(f"{where}: {text}", row)
    return None


def _cells(value: object) -> Iterator[object]:
    if not isinstance(value, list):
        yield value
        return
    for item in value:
        yield from _cells(item)


def _shape(value: object) -> Shape | None:
    """Return the shape of nested lists; None where lists of one depth differ."""
    if not isinstance(value, list):
        return ()
    shapes = {_shape(item) for item in value}
    if len(shapes) > 1 or None in shapes:
        return None
    return (len(value), *(shapes.pop() or () if shapes else ()))


def _fits(cell: object, datatype: str) -> bool:
    if datatype == "BYTES":
        return isinstance(cell, str | bytes)
    if datatype == "BOOL" or isinstance(cell, bool):  # which is an int to Python
        return datatype == "BOOL" and isinstance(cell, bool)
    if "INT" in datatype:
        least, most = _limits(datatype)
        return isinstance(cell, int) and least <= cell <= most
    return isinstance(cell, int | float)


def _describe_wanted(datatype: str) -> str:
    """Return what a cell must be, and what to write."""
    if datatype == "BYTES":
        return TEXT
    if datatype == "BOOL":
        return "BOOL; write true or false"
    if "INT" in datatype:
        least, most = _limits(datatype)
        return f"{datatype}; write a whole number from {least} to {most}"
    return f"{datatype}; write a number"


def _limits(datatype: str) -> tuple[int, int]:
    info = np.iinfo(triton_to_np_dtype(datatype))
    return info.min, info.max


def _show(cell: object) -> str:
    text = orjson.dumps(cell, default=str).decode()
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
