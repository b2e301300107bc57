# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Triton's HTTP bodies: JSON that describes the tensors, then the bytes of the tensors. The gateway uses this module, too."""

import json
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.utils import (  # type: ignore[import-untyped]
    deserialize_bytes_tensor,
    np_to_triton_dtype,
)

from ..tensors import OUTPUTS
from .batches import Arrays, find_dtype
from .errors import ServerFailure
from .transport import Request

LENGTH = "inference-header-content-length"  # the header with the size of the JSON

find_datatype = cache(np_to_triton_dtype)


def encode(request: Request) -> list[Any]:
    """Return the parts of a request's body: the JSON, then the bytes of each tensor that is not in shared memory."""
    described, contents = [], []
    for name, array in request.inputs.items():
        if (parameters := request.places.get(name)) is None:
            contents.append(encode_tensor(array))
            parameters = {"binary_data_size": len(contents[-1])}
        datatype = find_datatype(array.dtype)
        described.append(
            {"name": name, "shape": array.shape, "datatype": datatype, "parameters": parameters}
        )
    body: dict[str, Any] = {"inputs": described, "parameters": {**request.options}}
    body["id"] = body["parameters"].pop("request_id", "")
    body["parameters"]["timeout"] = request.deadline.left_us()
    if tuple(request.outputs) == tuple(OUTPUTS):
        body["parameters"]["binary_data_output"] = True
    else:
        in_bytes = {"binary_data": True}
        body["outputs"] = [{"name": name, "parameters": in_bytes} for name in request.outputs]
    return [json.dumps(body).encode(), *contents]


def encode_tensor(array: NDArray[Any]) -> Any:
    """Return the bytes of a tensor; numbers are copied only if they are not contiguous."""
    if array.dtype != object:
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    return b"".join(part for cell in array.flat for part in (struct.pack("<I", len(cell)), cell))


def decode(content: bytes, length: str | int | None, outputs: Sequence[str], server: str) -> Arrays:
    """Return the outputs of a response; raise ServerFailure if it is not Triton's or one is missing.

    `length` is the size of the JSON. Triton does not say it if all tensors are empty.
    """
    arrays, view = {}, memoryview(content)
    try:
        end = int(length or len(content))
        for output in json.loads(content[:end])["outputs"]:
            name, datatype, shape = output["name"], output["datatype"], output["shape"]
            if name not in outputs and "data" in output:  # a cached response has all outputs
                continue
            start, end = end, end + output["parameters"]["binary_data_size"]
            arrays[name] = decode_tensor(datatype, view[start:end], shape)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError, struct.error):
        reason = f"{server} answers what is not Triton's"
        raise ServerFailure(f"{reason}: {read_error(content)}") from None
    return select(arrays, outputs)


def decode_tensor(datatype: str, content: Any, shape: Sequence[int]) -> NDArray[Any]:
    if datatype == "BYTES":
        return np.asarray(deserialize_bytes_tensor(content)).reshape(shape)
    array = np.frombuffer(content, find_dtype(datatype)).reshape(shape)
    return array.astype(np.float32) if datatype == "BF16" else array  # NumPy does not have BF16


def select(arrays: Arrays, outputs: Sequence[str]) -> Arrays:
    """Return the named outputs; raise ServerFailure if one is missing that no step may leave out.

    Triton does not treat this as an error.
    """
    for name in outputs:
        if name not in arrays and not (name in OUTPUTS and OUTPUTS[name].optional):
            raise ServerFailure(f"the server's answer has no {name}")
    return {name: arrays[name] for name in outputs if name in arrays}


def read_error(content: bytes) -> str:
    """Return Triton's error message, or the first words of a message of a proxy in front of it."""
    try:
        return str(json.loads(content)["error"])
    except (KeyError, RecursionError, TypeError, ValueError):
        return str(content[:200], "utf-8", "replace")
