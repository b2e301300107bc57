# Yours: written once, never touched by `make update`.
"""How the model file of step linear is made: trained in a second, exported to ONNX."""

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.utils import extract_model
from skl2onnx import convert_sklearn  # type: ignore[import-untyped]
from skl2onnx.common.data_types import FloatTensorType  # type: ignore[import-untyped]

from models.samples import linear

OPSET = 17  # read by every ONNX Runtime since 1.12; a newer one can be too new for the server
RANGES = {"features": (0, 30)}  # what tests/test_reference.py sends


def build(path: Path) -> None:
    """Write an ONNX file: features FP32[batch, 30] -> probabilities FP32[batch, 2]."""
    model = convert_sklearn(
        linear(),
        initial_types=[("features", FloatTensorType([None, 30]))],
        options={"zipmap": False},
        target_opset=OPSET,
    )
    onnx.save(model, path)
    extract_model(path, path, ["features"], ["probabilities"])


def reference(inputs: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float64]]:
    """What the file must answer: tests/test_reference.py compares."""
    return {"probabilities": linear().predict_proba(inputs["features"])}
