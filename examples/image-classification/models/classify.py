# Yours: written once, never touched by `make update`.
"""How the model file of step classify is made: trained in a second, exported to ONNX."""

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.utils import extract_model
from skl2onnx import convert_sklearn  # type: ignore[import-untyped]
from skl2onnx.common.data_types import (  # type: ignore[import-untyped]
    FloatTensorType,
    Int64TensorType,
)

from models.digits import classifier

OPSET = 17  # read by every ONNX Runtime since 1.12; a newer one can be too new for the server


def build(path: Path) -> None:
    """Write an ONNX file: pixels FP32[batch, 64] -> logits FP32[batch, 10]."""
    model = convert_sklearn(
        classifier(),
        initial_types=[("pixels", FloatTensorType([None, 64]))],
        final_types=[("digit", Int64TensorType([None])), ("logits", FloatTensorType([None, 10]))],
        options={"zipmap": False},
        target_opset=OPSET,
    )
    onnx.save(model, path)
    extract_model(path, path, ["pixels"], ["logits"])


def reference(inputs: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """What the file must answer: tests/test_reference.py compares."""
    return {"logits": classifier().predict_proba(inputs["pixels"])}
