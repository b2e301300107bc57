# Yours: written once, never touched by `make update`.
"""How the model file of step detect is made: Silero's VAD of models/silero.py, over many chunks a call."""

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from models import silero

STATES = {"context": [64], "memory": [2, 128]}


def build(path: Path) -> None:
    """Write an ONNX file: audio INT16[batch, chunks, 512] -> probability FP32[batch, chunks].

    context -> next_context FP32[batch, 64] and memory -> next_memory FP32[batch, 2, 128] go from call to call.
    """
    silero.build(path)
    model = onnx.load(path)
    body = model.graph
    inputs = {value.name: value for value in body.input}
    outputs = {value.name: value for value in body.output}
    del body.input[:], body.output[:]
    body.input.extend(inputs[name] for name in (*STATES, "audio"))
    later = [f"next_{name}" for name in STATES]
    body.output.extend(outputs[name] for name in (*later, "probability"))
    scan = helper.make_node(
        "Scan",
        [*STATES, "audio"],
        [*later, "columns"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_output_axes=[1],
    )
    flat = helper.make_node("Flatten", ["columns"], ["probability"])
    audio = _tensor("audio", TensorProto.INT16, ["chunks", 512])
    states = [_tensor(name, TensorProto.FLOAT, dims) for name, dims in STATES.items()]
    following = [_tensor(f"next_{name}", TensorProto.FLOAT, dims) for name, dims in STATES.items()]
    speech = _tensor("probability", TensorProto.FLOAT, ["chunks"])
    graph = helper.make_graph([scan, flat], "detect", [audio, *states], [speech, *following])
    opsets = model.opset_import
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version), path)


def _tensor(name: str, kind: int, dims: Sequence[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, ["batch", *dims])
