"""Requests to a running Triton, over gRPC: arrays in, arrays or the text of an error out."""

from __future__ import annotations

import time
from queue import Queue
from typing import Any
from urllib.request import urlopen

import numpy as np
import tritonclient.grpc as triton_grpc  # type: ignore[import-untyped]
from numpy.typing import NDArray
from tritonclient.utils import (  # type: ignore[import-untyped]
    InferenceServerException,
    np_to_triton_dtype,
)

from triton_ensemble.serve.local.local_triton import LocalTriton

Arrays = dict[str, NDArray[Any]]
Client = Any  # tritonclient has no types


def connect(triton: LocalTriton | str) -> Client:
    """Return a client of a Triton, or of the one at a URL."""
    url = triton if isinstance(triton, str) else triton.grpc_url
    return triton_grpc.InferenceServerClient(url.removeprefix("grpc://"))


def four(first: float, rows: int = 1) -> NDArray[Any]:
    array = np.zeros((rows, 4), np.float32)
    array[:, 0] = first
    return array


def as_inputs(arrays: Arrays) -> list[triton_grpc.InferInput]:
    inputs = []
    for name, array in arrays.items():
        kind = np_to_triton_dtype(array.dtype)
        inputs.append(triton_grpc.InferInput(name, list(array.shape), kind))
        inputs[-1].set_data_from_numpy(array)
    return inputs


def arrays_of(result: triton_grpc.InferResult) -> Arrays:
    return {o.name: result.as_numpy(o.name) for o in result.get_response().outputs}


def asked(client: Client, model: str, arrays: Arrays, **options: Any) -> Arrays | str:
    try:
        options = {"client_timeout": 20, **options}
        return arrays_of(client.infer(model, as_inputs(arrays), **options))
    except InferenceServerException as error:
        return str(error.message())


def streamed(
    triton: LocalTriton | str, model: str, arrays: Arrays, **options: Any
) -> list[Arrays | str]:
    """Return the responses of a decoupled model, the last of which may be an error."""
    responses: Queue[Any] = Queue()
    answers: list[Arrays | str] = []
    with connect(triton) as client:
        client.start_stream(lambda result, error: responses.put((result, error)))
        client.async_stream_infer(
            model, as_inputs(arrays), enable_empty_final_response=True, **options
        )
        while True:
            result, error = responses.get(timeout=10)
            if error:
                return [*answers, error.message()]
            response = result.get_response()
            if response.outputs:
                answers.append(arrays_of(result))
            if response.parameters["triton_final_response"].bool_param:
                return answers


def metric(triton: LocalTriton, name: str, **labels: str) -> float:
    """Return the sum of a metric's samples with these labels, after Triton had time to count."""
    time.sleep(1)
    with urlopen(triton.metrics_url, timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    samples = [x for x in lines if x.startswith(name + "{") and all(text in x for text in wanted)]
    return sum(float(line.split()[-1]) for line in samples)
