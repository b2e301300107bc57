"""The computation of each step in the property tests: here, and as `steps/reference_step.py` inside Triton."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Specs = Mapping[str, tuple[str, Sequence[int]]]  # data type and shape of a row, by name

DTYPES: dict[str, Any] = {
    **{f"{sign}INT{n}": f"{sign}int{n}".lower() for sign in ("", "U") for n in (8, 16, 32, 64)},
    **{f"FP{n}": f"float{n}" for n in (16, 32, 64)},
    "BOOL": "bool",
    "STRING": "object",
}
ODD, SPREAD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


def computed(step: str, inputs: Sequence[Array | None], outputs: Specs) -> dict[str, Array]:
    """Return outputs of which each row depends on that row of each input, on the step and on the output."""
    rows = next(len(array) for array in inputs if array is not None)
    total = np.zeros(rows, np.uint64)
    for i, array in enumerate(inputs):
        total = total * ODD + (np.uint64(i) if array is None else digest(array))
    return {
        name: values(total + np.uint64(crc32(f"{step}\n{name}".encode())), dtype, row)
        for name, (dtype, row) in outputs.items()
    }


def digest(array: Array) -> NDArray[np.uint64]:
    """Return a number for each row, of all its values and their places."""
    if array.dtype == object:
        numbers = np.array([crc32(text) for text in array.flat], np.uint64)
    elif array.dtype.kind == "f":
        numbers = array.view(f"u{array.dtype.itemsize}").astype(np.uint64)
    else:
        numbers = array.astype(np.uint64)
    numbers = mixed(numbers.reshape(len(array), -1) + np.uint64(1))
    places = np.arange(1, numbers.shape[1] + 1, dtype=np.uint64) * ODD
    return np.asarray((numbers * (places | np.uint64(1))).sum(axis=1, dtype=np.uint64))


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    numbers = (numbers ^ (numbers >> np.uint64(30))) * SPREAD
    return np.asarray(numbers ^ (numbers >> np.uint64(27)))


def values(seeds: NDArray[np.uint64], dtype: str, row: Sequence[int]) -> Array:
    places = np.arange(int(np.prod(row, dtype=int)), dtype=np.uint64)
    numbers = mixed(seeds[:, None] + places * ODD).reshape(len(seeds), *row)
    if dtype == "STRING":
        texts = [b"%d" % number for number in numbers.flat]
        return np.array(texts, object).reshape(numbers.shape)
    if dtype.startswith("FP"):
        return (numbers % np.uint64(2000) / 16).astype(DTYPES[dtype])
    return (numbers & np.uint64(1) if dtype == "BOOL" else numbers).astype(DTYPES[dtype])
