"""A request to any model of a Triton, over gRPC, as what surrounds the project's client needs it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.utils import np_to_triton_dtype  # type: ignore[import-untyped]

from triton_ensemble.facts.client import Arrays


def ask(client: Any, model: str, inputs: Arrays, **options: Any) -> Arrays:
    """Return a model's answer to one request, or raise InferenceServerException if it fails.

    `options` are the options of tritonclient's `infer`.
    """
    return answer(client.infer(model, tensors(inputs), **options))


def tensors(inputs: Arrays) -> list[Any]:
    """Return arrays as tritonclient sends them."""
    return [_tensor(name, array) for name, array in inputs.items()]


def answer(result: Any) -> Arrays:
    """Return the arrays of a response, by output."""
    names = [output.name for output in result.get_response().outputs]
    return {name: result.as_numpy(name) for name in names}


def _tensor(name: str, array: NDArray[Any]) -> Any:
    tensor = grpc.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    tensor.set_data_from_numpy(np.ascontiguousarray(array))
    return tensor
