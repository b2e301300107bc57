"""Model files of ONNX, run by torch: for a machine whose ONNX Runtime lacks CUDA."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx
import torch
from onnx import helper, numpy_helper
from torch.nn import functional

OPERATORS: dict[str, Callable[..., Any]] = {  # as far as these networks need them
    "Add": torch.add,
    "Cast": lambda x, to: x.float(),
    "Conv": lambda x, w, strides, pads: torch.conv2d(x, w, None, strides, pads[:2]),
    "Div": torch.div,
    "Erf": torch.erf,
    "Flatten": lambda x: x.flatten(1),
    "Gather": lambda table, rows: table[rows],
    "GlobalAveragePool": lambda x: x.mean((2, 3)),
    "LayerNormalization": lambda x, w, b, epsilon: functional.layer_norm(x, w.shape, w, b, epsilon),
    "MatMul": torch.matmul,
    "Mul": torch.mul,
    "Relu": torch.relu,
    "Reshape": lambda x, sizes: x.reshape([size or x.size(i) for i, size in enumerate(sizes)]),
    "Shape": lambda x, start, end: [x.size(start)],
    "Slice": lambda x, start, end, axis: x[: end[0]],
    "Softmax": lambda x, axis: torch.softmax(x, axis),
    "Sub": torch.sub,
    "Transpose": lambda x, perm: x.permute(perm),
    "Unsqueeze": lambda x, axes: x[:, None, None],
}


class SessionOptions: ...


class InferenceSession:
    """A stand-in for ONNX Runtime's, in steps and in FastAPI."""

    def __init__(self, path: str, *_: object) -> None:
        torch.set_num_threads(1)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.graph = onnx.load(path).graph
        constants = {each.name: numpy_helper.to_array(each) for each in self.graph.initializer}
        self.constants = {  # sizes stay here
            name: array.tolist()
            if array.dtype == "int64"
            else torch.tensor(array, device=self.device)
            for name, array in constants.items()
        }
        self.nodes = [
            (each, {a.name: helper.get_attribute_value(a) for a in each.attribute})
            for each in self.graph.node
        ]

    def run(self, outputs: object, feeds: Mapping[str, Any]) -> list[Any]:
        known: dict[str, Any] = {**self.constants}
        with torch.inference_mode():
            known |= {name: torch.tensor(a, device=self.device) for name, a in feeds.items()}
            for node, options in self.nodes:
                result = OPERATORS[node.op_type](*map(known.get, node.input), **options)
                known[node.output[0]] = result
            return [result.cpu().numpy()]
