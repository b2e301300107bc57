"""The rows of the sample requests, serialised for gRPC once, so that sending them costs little."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2  # type: ignore[import-untyped]
from tritonclient.utils import serialize_byte_tensor  # type: ignore[import-untyped]

from triton_ensemble.facts.client import package, split_sequence
from triton_ensemble.facts.project import Project
from triton_ensemble.testing.files import samples

Inputs = dict[str, NDArray[Any]]


class Row(NamedTuple):
    """A request, and its position in its sequence, which it may be alone."""

    inputs: Inputs
    start: bool = True
    end: bool = True


def sample_rows(project: Project, rows: int = 1) -> Iterator[Row]:
    """Yield a request for each row of each sample, with this row `rows` times.

    Raise ValueError for too many rows.
    """
    limit = 1 if project.sequential else max(package(project, "tensors").MAX_BATCH_SIZE, 1)
    if rows > limit:
        raise ValueError(f"a request of {project.ensemble} has at most {limit} rows")
    for sample in samples(project):
        inputs = sample.inputs
        if project.sequential or not project.batched:
            yield from starmap(Row, split_sequence(project, inputs))
            continue
        for i in range(len(next(iter(inputs.values()), [0]))):
            yield Row(
                {name: np.repeat(array[i : i + 1], rows, 0) for name, array in inputs.items()}
            )


def body(project: Project, row: Row, sequence: int = 0) -> bytes:
    """Return a serialised request, at its position in a `sequence` if that is a number from 1."""
    datatypes = {given.name: given.datatype for given in project.inputs}
    request = service_pb2.ModelInferRequest(model_name=project.ensemble)
    for name, array in row.inputs.items():
        request.inputs.add(name=name, datatype=datatypes[name], shape=array.shape)
        request.raw_input_contents.append(_content(array, datatypes[name]))
    if sequence:
        request.parameters["sequence_id"].int64_param = sequence
        request.parameters["sequence_start"].bool_param = row.start
        request.parameters["sequence_end"].bool_param = row.end
    return bytes(request.SerializeToString())


def _content(array: NDArray[Any], datatype: str) -> bytes:
    """Return the content of a tensor as the protocol wants it."""
    if datatype != "BYTES":
        return array.tobytes()
    return bytes(serialize_byte_tensor(array).item()) if array.size else b""
