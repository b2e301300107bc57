"""FP32[3, 64, 64] -> FP32[10]: a small convolutional network in ONNX Runtime on one thread, about 2 ms a row."""

from typing import Any

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

INPUT, OUTPUT = "FP32[3, 64, 64]", "FP32[10]"


def network() -> bytes:
    """Three convolutions, the mean of each channel, and a linear layer."""
    random = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for i, (inputs, outputs) in enumerate([(3, 32), (32, 48), (48, 10)]):
        kernel = random.standard_normal((outputs, inputs, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(kernel, f"w{i}"))
        nodes.append(helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        last = f"r{i}"
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["mean"]))
    nodes.append(helper.make_node("Flatten", ["mean"], ["y"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 64, 64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])
    graph = helper.make_graph(nodes, "network", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def session() -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(network(), options, providers=["CPUExecutionProvider"])


SESSION = session()


def compute(rows: NDArray[Any]) -> NDArray[Any]:
    answer: NDArray[Any] = SESSION.run(None, {"x": rows})[0]
    return answer
