"""Shared by tests: what the guided session reads from model files, how it draws, and what it writes to pipeline.yml."""

from __future__ import annotations

from pathlib import Path

import numpy as np

FAN = """\
features python: EVENT STRING[1] -> FEATURES FP32[32]
click onnxruntime: FEATURES -> CLICK FP32[1]
buy onnxruntime: FEATURES -> BUY FP32[1]
rank python: CLICK, BUY -> SCORE FP32[1]"""


def write_onnx(path: Path, first: str | int = "rows", external: bool = False) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    pixels = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [first, 4])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, [first, 4])
    weight = numpy_helper.from_array(np.ones((1, 4), np.float32), "weight")
    node = helper.make_node("Mul", ["pixels", "weight"], ["score"])
    graph = helper.make_graph([node], "graph", [pixels], [score], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(
        model, str(path), save_as_external_data=external, location="weights.bin", size_threshold=0
    )
