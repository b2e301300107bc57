# Yours: written once, never touched by `make update`.
"""How the model file of step classify is made: trained in a second, exported to ONNX."""

from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx.utils import extract_model
from skl2onnx import convert_sklearn  # type: ignore[import-untyped]
from skl2onnx.common.data_types import FloatTensorType  # type: ignore[import-untyped]

from models.digits import classifier

OPSET = 17  # read by every ONNX Runtime since 1.12; a newer one can be too new for the server


def build(path: Path) -> None:
    """Write an ONNX file: pixels FP32[batch, 64] -> digit INT64[batch, 1], score FP32[batch, 1]."""
    model = convert_sklearn(
        with_softmax(),
        initial_types=[("pixels", FloatTensorType([None, 64]))],
        options={"zipmap": False},
        target_opset=OPSET,
    )
    probabilities = [model.graph.output[1].name]
    model.graph.node.extend(
        [
            helper.make_node("ArgMax", probabilities, ["digit"], axis=1),
            helper.make_node("ReduceMax", probabilities, ["score"], axes=[1]),
        ]
    )
    model.graph.output.extend(
        [
            helper.make_tensor_value_info("digit", TensorProto.INT64, [None, 1]),
            helper.make_tensor_value_info("score", TensorProto.FLOAT, [None, 1]),
        ]
    )
    onnx.save(model, path)
    extract_model(path, path, ["pixels"], ["digit", "score"])


def with_softmax() -> Any:
    """The classifier of models/digits.py, whose `predict_proba` then returns probabilities."""
    trained = copy(classifier())
    trained.out_activation_ = "softmax"
    return trained


def reference(inputs: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[Any]]:
    """What the file must answer: tests/test_reference.py compares."""
    probabilities = with_softmax().predict_proba(inputs["pixels"])
    return {
        "digit": probabilities.argmax(axis=1, keepdims=True),
        "score": probabilities.max(axis=1, keepdims=True),
    }
