"""The rows of the sample requests as bytes for gRPC: made once, so that sending them costs little."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2  # type: ignore[import-untyped]
from tritonclient.utils import serialize_byte_tensor  # type: ignore[import-untyped]

from {{ package }}.tensors import INPUTS, MAX_BATCH_SIZE, MODEL
from triton_ensemble.samples.files import samples

Inputs = dict[str, NDArray[Any]]


def sample_rows(rows: int = 1) -> Iterator[Inputs]:
    """A request for each row of each sample, which it has `rows` times; ValueError if it can't."""
    if rows > max(MAX_BATCH_SIZE, 1):
        raise ValueError(f"a request of {MODEL} has at most {max(MAX_BATCH_SIZE, 1)} rows")
    for sample in samples():
        inputs = sample.inputs
        for i in range(len(next(iter(inputs.values()), [0])) if MAX_BATCH_SIZE else 0):
            row = {name: array[i : i + 1] for name, array in inputs.items()}
            yield {name: np.repeat(array, rows, axis=0) for name, array in row.items()}
        if not MAX_BATCH_SIZE:
            yield inputs


def without_rows(array: NDArray[Any]) -> tuple[int, ...]:
    """The shape of a tensor without the batch dimension."""
    return array.shape[1:] if MAX_BATCH_SIZE else array.shape


def raw(name: str, array: NDArray[Any]) -> bytes:
    """A tensor's content as Triton's protocol has it."""
    if INPUTS[name].datatype == "BYTES":
        return bytes(serialize_byte_tensor(array).item()) if array.size else b""
    return array.tobytes()


def body(inputs: Inputs, sequence: int = 0) -> bytes:
    """A request, serialised; with a `sequence`, a number from 1, a sequence of this request alone."""
    request = service_pb2.ModelInferRequest(model_name=MODEL)
    for name, array in inputs.items():
        request.inputs.add(name=name, datatype=INPUTS[name].datatype, shape=array.shape)
        request.raw_input_contents.append(raw(name, array))
    if sequence:
        request.parameters["sequence_id"].int64_param = sequence
        request.parameters["sequence_start"].bool_param = True
        request.parameters["sequence_end"].bool_param = True
    return bytes(request.SerializeToString())
