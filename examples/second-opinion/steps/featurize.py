# Yours: written once, never touched by `make update`.
"""Step featurize: measurements by name, as JSON -> the features that the models take.

Tested without a server by tests/test_steps.py.
"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from step_types import FeaturizeOutputs
from triton_step import Context, InvalidRequest, text

MEASURED = (
    "radius",
    "texture",
    "perimeter",
    "area",
    "smoothness",
    "compactness",
    "concavity",
    "concave points",
    "symmetry",
    "fractal dimension",
)
# In the order of the training: of all cells in the sample the mean, its standard error, and the
# mean of the three largest.
NAMES = (
    *(f"mean {name}" for name in MEASURED),
    *(f"{name} error" for name in MEASURED),
    *(f"worst {name}" for name in MEASURED),
)


class Step:
    """MEASUREMENTS STRING[batch, 1] -> FEATURES FP32[batch, 30].

    MEASUREMENTS is a JSON object, whose keys are NAMES and whose values are numbers.
    Raises InvalidRequest, which names the row, for anything else.
    """

    def __init__(self, context: Context) -> None:
        """Called once, when the model loads. `context` has the step's parameters, directory, device
        and a logger; this step needs none of them."""

    def __call__(self, MEASUREMENTS: NDArray[np.object_]) -> FeaturizeOutputs:
        texts = text(MEASUREMENTS)[:, 0]
        rows = [
            _features(str(given), f"MEASUREMENTS, row {row}") for row, given in enumerate(texts)
        ]
        return {"FEATURES": np.array(rows, dtype=np.float32).reshape(-1, len(NAMES))}


def _features(given: str, where: str) -> list[float]:
    measurements = _mapping(given, where)
    if missing := [name for name in NAMES if name not in measurements]:
        raise InvalidRequest(f'{where}: has no "{missing[0]}"; send all {len(NAMES)} measurements')
    if unknown := [name for name in measurements if name not in NAMES]:
        known = ", ".join(NAMES)
        raise InvalidRequest(f'{where}: "{unknown[0][:50]}" is not a measurement; send {known}')
    for name, value in measurements.items():
        if not _is_number(value):
            raise InvalidRequest(f'{where}: "{name}" is not a number from 0 to 1e30; send one')
    return [float(measurements[name]) for name in NAMES]


def _mapping(given: str, where: str) -> dict[str, Any]:
    try:
        measurements = json.loads(given)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{where}: is not JSON; send an object of numbers") from error
    if not isinstance(measurements, dict):
        raise InvalidRequest(f"{where}: is not a JSON object; send one of numbers by name")
    return measurements


def _is_number(value: Any) -> bool:
    """Whether it is one that a measurement can be, and FP32 can hold; true and NaN are not."""
    return type(value) in (int, float) and 0 <= value <= 1e30
