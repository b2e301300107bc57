"""Detectors of images of 32 x 64, as packages export them: each sees two cats in an image that begins brightly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ALONE = {
    "SHARED_WORK": ""
}  # models/exported.py reads pipeline.yml, which shared_work.py does not know
# Of what Ultralytics 8.4.190 writes into the metadata.
ULTRALYTICS = {"task": "detect", "imgsz": "[64, 32]", "names": "{0: 'dog', 1: 'cat'}"}
Table = list[list[float]]
CENTRES: Table = [[16, 32, 8, 16], [16, 32, 8, 18]]
CORNERS: Table = [[12, 24, 20, 40], [12, 23, 20, 41]]
SCORES = 0.9, 0.8


class Export(NamedTuple):
    """outputs: by name, how many rows the file says, and the first of them. image: its input's name and height."""

    outputs: Mapping[str, tuple[int, Table]]
    metadata: dict[str, str] = {}  # noqa: RUF012  # never changed
    image: tuple[str, Any] = ("images", "height")
    batch: Any = "batch"
    bright: float = 0.5  # a number that a bright pixel is above, and a dark one is not
    turned: bool = False  # rows and columns are exchanged


def both(boxes: Table, before: list[float], after: list[float]) -> Table:
    return [[*box, *before, each, *after] for box, each in zip(boxes, SCORES, strict=True)]


SAYS = {
    nms: {**ULTRALYTICS, "end2end": str(nms is False), "args": str({"dynamic": True, "nms": nms})}
    for nms in (None, False, True)
}
EXPORTS = {
    "yolo26": Export({"output0": (20, both(CORNERS, [], [1]))}, SAYS[False]),
    "yolo26 with suppression": Export({"output0": (20, both(CORNERS, [], [1]))}, SAYS[True]),
    "yolo26 by default": Export({"output0": (42, both(CENTRES, [0], []))}, SAYS[None], turned=True),
    "yolov5": Export({"output0": (126, both(CENTRES, [1, 0], []))}, image=("images", 64)),
    "yolov10": Export({"output0": (20, both(CORNERS, [], [1]))}, image=("images", 64)),
    # The logits of both scores. 1 is a white pixel's, once it is normalised.
    "rf-detr": Export(
        {
            "dets": (5, np.divide(CENTRES, [32, 64, 32, 64]).tolist()),
            "labels": (5, [[-9, np.log(each / (1 - each)), 9] for each in SCORES]),
        },
        image=("input", 64),
        bright=1,
    ),
}


def write(path: Path, export: Export) -> None:
    """Write an ONNX file."""
    name, height = export.image
    constants = {"from": [0, 0, 0], "to": [1, 1, 1], "axes": [1, 2, 3], "one": [-1, 1, 1]}
    stored = {key: np.array(value) for key, value in constants.items()}
    stored["bright"] = np.array(export.bright, np.float32)
    nodes = [
        helper.make_node("Slice", [name, "from", "to", "axes"], ["corner"]),
        helper.make_node("Greater", ["corner", "bright"], ["is_bright"]),
        helper.make_node("Cast", ["is_bright"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["number", "one"], ["seen"]),
    ]
    answered = []
    for output, (count, rows) in export.outputs.items():
        table = np.zeros((1, count, len(rows[0])), np.float32)
        table[0, : len(rows)] = rows
        stored[f"{output}_rows"] = table.transpose(0, 2, 1) if export.turned else table
        nodes.append(helper.make_node("Mul", ["seen", f"{output}_rows"], [output]))
        _, first, last = stored[f"{output}_rows"].shape
        # With any size, Ultralytics says of the last dim that it varies, even of the 6.
        dims = [first, "anchors" if height == "height" else last]
        answered.append(_tensor(output, [export.batch, *dims]))
    given = [_tensor(name, [export.batch, 3, height, "width" if height == "height" else 32])]
    initializers = [numpy_helper.from_array(value, key) for key, value in stored.items()]
    graph = helper.make_graph(nodes, "detector", given, answered, initializers)
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    helper.set_model_props(model, dict(export.metadata))
    onnx.save(model, path)


def _tensor(name: str, dims: list[Any]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
