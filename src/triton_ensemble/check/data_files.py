"""Files with data that a config names: whether Triton can open them, and how long they must be."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from triton_ensemble import catalog
from triton_ensemble.config import type_name

SHORTEST_STRING_BYTES = 4  # the length of an empty string


def open_problem(file: Path) -> str:
    """Return Triton's message for a file that is not there, or nothing."""
    missing = f"failed to open text file for read {file}: No such file or directory"
    return "" if file.is_file() else missing


def row_bytes(tensor: Any) -> int:
    """Return the bytes of one tensor without a batch dimension; of strings, the least there can be."""
    known = catalog.data_types().get(type_name(tensor))
    size = (known.bytes or SHORTEST_STRING_BYTES) if known else 0
    return size * math.prod(map(int, tensor.dims))
