"""Print answers as JSON, for programs, or as tables, for people."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from triton_ensemble.facts.client import Array, Arrays

CELLS = 8  # the most values of a row in a table


def to_json(answer: Arrays) -> dict[str, Any]:
    """Return an answer as nested lists: bytes that are not UTF-8 as {"base64": ...}, NaN and infinity as None."""
    return {name: _value(array.tolist()) for name, array in answer.items()}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def table(answer: Arrays, is_batched: bool) -> str:
    """Return a table with a line for each row and a column for each output.

    It has one line without a batch dimension.
    """
    columns = [[name, *map(cells, split_rows(array, is_batched))] for name, array in answer.items()]
    padded = [[f"{cell:{max(map(len, column))}}" for cell in column] for column in columns]
    return "\n".join("  ".join(line).rstrip() for line in zip(*padded, strict=True))


def split_rows(array: Array, is_batched: bool) -> list[Array]:
    """Return the rows of an array, or the array itself without a batch dimension."""
    return list(array) if is_batched else [array]


def cells(row: Array) -> str:
    """Return the first values of a row on one line, with ` | ` between texts. Line breaks are escaped."""
    shown = [_cell(value) for value in np.ravel(row)[: CELLS + 1]]
    between = " | " if row.dtype == object else " "
    return between.join([*shown[:CELLS], "..."] if len(shown) > CELLS else shown)


def _cell(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"{len(value)} bytes that are not text"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
