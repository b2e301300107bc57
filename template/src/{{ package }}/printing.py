# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Answers for people and for programs."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batches import Arrays
from .tensors import MAX_BATCH_SIZE

CELLS = 8


def plain(answer: Arrays) -> dict[str, Any]:
    """An answer as JSON has it: nested lists; null for a number that is none; bytes that are no text are {"base64": ...}."""
    return {name: _plain(array.tolist()) for name, array in answer.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def table(answer: Arrays) -> str:
    """A line for each row and a column for each output; without a batch dimension, one line."""
    columns = [[name, *map(cells, by_row(array))] for name, array in answer.items()]
    widths = [max(map(len, column)) for column in columns]
    lines = zip(*columns, strict=True)
    padded = (zip(line, widths, strict=True) for line in lines)
    return "\n".join("  ".join(f"{c:{w}}" for c, w in line).rstrip() for line in padded)


def by_row(array: NDArray[Any]) -> list[NDArray[Any]]:
    return list(array) if MAX_BATCH_SIZE else [array]


def cells(row: NDArray[Any]) -> str:
    """The values of a row; the first few of many."""
    shown = [_cell(value) for value in np.ravel(row)[: CELLS + 1]]
    return " ".join([*shown[:CELLS], "..."] if len(shown) > CELLS else shown)


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        text = value.decode(errors="replace")
        return "".join(char if char.isprintable() else escaped(char) for char in text)
    return str(value)


def escaped(char: str) -> str:
    """`\\n` for a line break: a row of the table is one line of the terminal."""
    return char.encode("unicode_escape").decode()
