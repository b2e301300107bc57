"""Read the tensors of an ONNX file, without its weights."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from triton_ensemble.author.tensor import DraftTensor
from triton_ensemble.facts import catalog
from triton_ensemble.facts.project import ProjectError
from triton_ensemble.facts.reading import MODEL_BYTES, is_outside, read_bytes


def read(path: Path) -> tuple[list[DraftTensor], list[DraftTensor], list[Path]]:
    """Return inputs, outputs, with the batch dimension, and the files that hold weights beside it."""
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise ProjectError(
            "onnx is missing, which reads .onnx files; run: pip install onnx"
        ) from error
    try:
        graph = onnx.load_model_from_string(read_bytes(path, MODEL_BYTES)).graph
    except Exception as error:  # protobuf's own, which differ by its implementation
        raise ProjectError(f"{path}: is not an ONNX model; export it again") from error
    if not graph.output:
        raise ProjectError(f"{path}: is not an ONNX model; export it again")
    weights = {each.name for each in graph.initializer}
    inputs = [_tensor(path, each) for each in graph.input if each.name not in weights]
    outputs = [_tensor(path, each) for each in graph.output]
    places = {
        entry.value
        for each in graph.initializer
        for entry in each.external_data
        if entry.key == "location"
    }
    return inputs, outputs, [_find_weights(path, place) for place in sorted(places)]


def _find_weights(path: Path, place: str) -> Path:
    """Return the file of weights beside a model.

    Raise ProjectError if it is not there, or lies elsewhere.
    """
    file = path.parent / place
    if ".." in Path(place).parts or is_outside(file, path.parent):
        what = f"its weights are in {place}, out of the model's folder"
        raise ProjectError(f"{path}: {what}; save the model with its weights beside it")
    if not os.path.isfile(file):  # also where its name is too long
        raise ProjectError(
            f"{path}: its weights are in {place[:200]}, which is not a file; put it there"
        )
    return file


def _tensor(path: Path, value: Any) -> DraftTensor:
    from onnx import TensorProto

    declared = value.type.tensor_type
    known = {TensorProto.FLOAT: "FP32", TensorProto.DOUBLE: "FP64", TensorProto.FLOAT16: "FP16"}
    known[TensorProto.BFLOAT16] = "BF16"
    name = known.get(declared.elem_type) or TensorProto.DataType.Name(declared.elem_type)
    dims = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in declared.shape.dim]
    if not value.type.HasField("tensor_type") or name not in catalog.read_data_types():
        what = f"its {value.name} is of a type that Triton does not have"
        raise ProjectError(f"{path}: {what}; export it without, of scikit-learn with zipmap=False")
    return (
        DraftTensor(value.name, name, dims)
        if declared.HasField("shape")
        else DraftTensor(value.name)
    )
