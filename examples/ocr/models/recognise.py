# Yours: written once, never touched by `make update`.
"""How the model file of step recognise is made: PP-OCRv4's recogniser, and three nodes that choose characters.

Without them its answer is the probability of each of 6,625 characters in each column: megabytes a line.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from models.rapidocr import read_model


def build(path: Path) -> None:
    """Write an ONNX file: x FP32[batch, 3, 48, width] -> characters STRING[batch, columns], scores FP32[batch, columns]."""
    model = onnx.load_from_string(read_model("ch_PP-OCRv4_rec_infer"))
    [listed] = (entry.value for entry in model.metadata_props if entry.key == "character")
    # The first of what the model tells apart is none, the last a blank.
    alphabet = np.array(["", *listed.splitlines(), " "], np.object_)
    graph = model.graph
    probabilities = graph.output.pop().name
    graph.initializer.append(numpy_helper.from_array(alphabet, "alphabet"))
    graph.node.extend(
        [
            helper.make_node("ArgMax", [probabilities], ["best"], axis=2, keepdims=0),
            helper.make_node("Gather", ["alphabet", "best"], ["characters"]),
            helper.make_node("ReduceMax", [probabilities], ["scores"], axes=[2], keepdims=0),
        ]
    )
    for name, kind in {"characters": TensorProto.STRING, "scores": TensorProto.FLOAT}.items():
        graph.output.append(helper.make_tensor_value_info(name, kind, ["batch", "columns"]))
    onnx.save(model, path)
