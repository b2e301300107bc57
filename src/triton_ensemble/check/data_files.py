"""Files with data that a config names: whether Triton can open them, and how long they must be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triton_ensemble.facts import catalog
from triton_ensemble.facts.config import (
    Model,
    Part,
    Problem,
    type_name,
)

SHORTEST_STRING_BYTES = 4  # the length of an empty string


def check_named_file(
    model: Model, file: Path, *place: Part, instead: str = "put it there"
) -> Iterator[Problem]:
    """Yield Triton's message at the field of a config that names a file, if the file is not there."""
    if model.is_foreign(file):
        what = f"{file} leads out of the repository"
        yield model.problem(what, "put the file into the model's folder", *place)
    elif not file.is_file():
        what = f"failed to open text file for read {file}: No such file or directory"
        yield model.problem(what, instead, *place, missing=True)


def has_file(model: Model, file: Path) -> bool:
    """Return whether a file is there, and in the repository."""
    return not model.is_foreign(file) and file.is_file()


def texts_problem(file: Path, count: int) -> str:
    """Return Triton's message for a file that has not just `count` texts, each behind its length in four bytes."""
    size, end, found = file.stat().st_size, 0, 0
    with file.open("rb") as content:
        while end < size and found <= count:
            content.seek(end)
            length = content.read(4)
            end += 4 + int.from_bytes(length, "little")
            found += 1
            if len(length) < 4:
                return "incomplete string length indicator"
            if end > size:
                return "incomplete string data"
    return "" if found == count else f"unexpected number of string elements, expecting {count}"


def row_bytes(tensor: Any) -> int:
    """Return the number of bytes of one tensor without a batch dimension, or the least for strings."""
    known = catalog.read_data_types().get(type_name(tensor))
    size = (known.bytes or SHORTEST_STRING_BYTES) if known else 0
    return size * math.prod(map(int, tensor.dims))
