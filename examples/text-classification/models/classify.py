# Yours: written once, never touched by `make update`.
"""How the model file of step classify is made: trained in seconds, written as ONNX."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from models.docstrings import classifier, of_ids
from steps.words import LENGTH, VOCABULARY

OPSET = 17  # read by every ONNX Runtime since 1.12; a newer one can be too new for the server
IR_VERSION = 8
RANGES = {"input_ids": (0, VOCABULARY)}  # what tests/test_reference.py sends


def build(path: Path) -> None:
    """Write an ONNX file: input_ids INT64[batch, 64] -> logits FP32[batch, 12].

    Logits are the sum of a row of weights for each word, and the bias: a linear model looks up
    its weights as other text models do their embeddings.
    """
    nodes = [
        helper.make_node("Gather", ["weights", "input_ids"], ["rows"]),
        helper.make_node("ReduceSum", ["rows", "words"], ["sum"], keepdims=0),
        helper.make_node("Add", ["sum", "bias"], ["logits"]),
    ]
    inputs = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", LENGTH])
    outputs = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 12])
    graph = helper.make_graph(nodes, "classify", [inputs], [outputs], _constants())
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def _constants() -> list[Any]:
    weights = classifier().coef_.T.astype(np.float32)
    weights[0] = 0  # padding
    bias = classifier().intercept_.astype(np.float32)
    arrays = {"weights": weights, "bias": bias, "words": np.array([1], dtype=np.int64)}
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def reference(inputs: dict[str, NDArray[np.int64]]) -> dict[str, NDArray[np.float64]]:
    """What the file must answer: tests/test_reference.py compares."""
    return {"logits": classifier().decision_function(of_ids(inputs["input_ids"]))}
