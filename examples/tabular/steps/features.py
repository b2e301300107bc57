# Yours: written once, never touched by `make update`.
"""Step features: a row of a table, as JSON -> the numbers that the trees take. The training uses `encode` too.

Tested without a server by tests/test_steps.py.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from step_types import FeaturesOutputs
from triton_step import Context, InvalidRequest, text

CATEGORIES = {"island": ["Biscoe", "Dream", "Torgersen"], "sex": ["FEMALE", "MALE"]}
NUMBERS = ["culmen_length_mm", "culmen_depth_mm", "flipper_length_mm", "body_mass_g"]
COLUMNS = [*CATEGORIES, *NUMBERS]
LARGEST = 1_000_000


class Step:
    """PENGUIN STRING[batch, 1] -> FEATURES FP32[batch, 6].

    PENGUIN is a JSON object with all COLUMNS, in any order. A category is one of CATEGORIES, a number is from 0 to LARGEST,
    and null is a missing value. Raises InvalidRequest, which names the row, for anything else.
    """

    def __init__(self, context: Context) -> None:
        """Called once, when the model loads. This step needs nothing of `context`."""

    def __call__(self, PENGUIN: NDArray[np.object_]) -> FeaturesOutputs:
        rows = [
            encode(_parse(str(given), f"PENGUIN, row {row}"), f"PENGUIN, row {row}")
            for row, given in enumerate(text(PENGUIN)[:, 0])
        ]
        return {"FEATURES": np.array(rows, np.float32).reshape(-1, len(COLUMNS))}


def encode(row: Mapping[str, Any], where: str) -> list[float]:
    """Return a row as numbers, in the order of COLUMNS: a category's position, NaN for a missing value."""
    if missing := [name for name in COLUMNS if name not in row]:
        columns = ", ".join(COLUMNS)
        raise InvalidRequest(f'{where}: has no "{missing[0]}"; send {columns}, null if unknown')
    if unknown := [name for name in row if name not in COLUMNS]:
        raise InvalidRequest(f'{where}: "{unknown[0][:50]}" is not a column; leave it out')
    return [_number(name, row[name], where) for name in COLUMNS]


def _number(name: str, value: Any, where: str) -> float:
    if value is None:
        return math.nan
    if name in CATEGORIES:
        if value in CATEGORIES[name]:
            return CATEGORIES[name].index(value)
        known = ", ".join(CATEGORIES[name])
        shown = json.dumps(value)[:50]
        raise InvalidRequest(f'{where}: "{name}" is {shown}; send one of {known}, or null')
    if type(value) in (int, float) and 0 <= value <= LARGEST:  # true and NaN are not
        return float(value)
    raise InvalidRequest(f'{where}: "{name}" is not a number from 0 to {LARGEST:,}, or null')


def _parse(given: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(given)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{where}: is not JSON; send an object") from error
    if not isinstance(row, dict):
        raise InvalidRequest(f"{where}: is not a JSON object; send one value for each column")
    return row
