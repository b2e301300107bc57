"""A small convolutional network, about 2 ms a row on one thread: pixels FP32[batch, 3, 224, 224] -> logits FP32[batch, 10]."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS = [(3, 32, 4), (32, 128, 2), (128, 192, 2)]  # channels in and out, stride


def build(path: Path) -> None:
    random = np.random.default_rng(0)
    nodes, weights, last = [], [], "pixels"
    sizes: dict[str, Any]
    for i, (inputs, outputs, stride) in enumerate(LAYERS):
        kernel = random.standard_normal((outputs, inputs, 5, 5)).astype(np.float32) / inputs
        weights.append(numpy_helper.from_array(kernel, f"w{i}"))
        sizes = {"strides": [stride, stride], "pads": [2, 2, 2, 2]}
        nodes.append(helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], **sizes))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        last = f"r{i}"
    weights.append(
        numpy_helper.from_array(random.standard_normal((192, 10)).astype(np.float32), "w")
    )
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["mean"]))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat"]))
    nodes.append(helper.make_node("MatMul", ["flat", "w"], ["logits"]))
    pixels = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["n", 3, 224, 224])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 10])
    graph = helper.make_graph(nodes, "network", [pixels], [logits], weights)
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
