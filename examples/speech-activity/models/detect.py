# Yours: written once, never touched by `make update`.
"""How the model file of step detect is made: Silero's VAD as it is, between nodes that fit it to Triton.

The package silero-vad (MIT License) carries it. What goes from one chunk to the next is state, which Triton keeps.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from models.package import read_files

PACKAGE = (
    "silero-vad==6.2.3"
    " --hash=sha256:7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8"
)
RATE = 16_000
CONTEXT = 64  # samples of the chunk before, which the model also hears


def build(path: Path) -> None:
    """Write an ONNX file: audio INT16[batch, 512] -> probability FP32[batch, 1].

    It has the states context -> next_context FP32[batch, 64] and memory -> next_memory FP32[batch, 2, 128].
    """
    [file] = read_files(PACKAGE, "silero_vad/data/silero_vad.onnx")
    model = onnx.load_from_string(file)
    graph = model.graph
    constants: dict[str, NDArray[Any]] = {
        "sr": np.array(RATE, np.int64),
        "full_scale": np.array(2**15, np.float32),
        "from": np.array([-CONTEXT], np.int64),
        "to": np.array([2**31], np.int64),
        "axis": np.array([1], np.int64),
    }
    for name, value in constants.items():
        graph.initializer.append(numpy_helper.from_array(value, name))
    own = [*graph.node]
    del graph.node[:], graph.input[:], graph.output[:]
    graph.node.extend(
        [
            helper.make_node("Cast", ["audio"], ["samples"], to=TensorProto.FLOAT),
            helper.make_node("Div", ["samples", "full_scale"], ["chunk"]),
            helper.make_node("Concat", ["context", "chunk"], ["input"], axis=1),
            helper.make_node("Slice", ["input", "from", "to", "axis"], ["next_context"]),
            # The model has the batch in the second dimension of its state, Triton in the first.
            helper.make_node("Transpose", ["memory"], ["state"], perm=[1, 0, 2]),
            *own,
            helper.make_node("Transpose", ["stateN"], ["next_memory"], perm=[1, 0, 2]),
            helper.make_node("Identity", ["output"], ["probability"]),
        ]
    )
    dims = {"context": [CONTEXT], "memory": [2, 128]}
    graph.input.append(_tensor("audio", TensorProto.INT16, [512]))
    graph.input.extend(_tensor(name, TensorProto.FLOAT, size) for name, size in dims.items())
    graph.output.append(_tensor("probability", TensorProto.FLOAT, [1]))
    graph.output.extend(
        _tensor(f"next_{name}", TensorProto.FLOAT, size) for name, size in dims.items()
    )
    onnx.save(model, path)


def _tensor(name: str, kind: int, dims: list[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, ["batch", *dims])
