# Managed by triton-ensemble-template: edits are merged by `make update`.
"""What all ways to the server have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import numpy as np
from tritonclient.utils import np_to_triton_dtype  # type: ignore[import-untyped]

from .batches import Arrays
from .errors import ServerFailure
from .shared_memory import Region
from .tensors import OUTPUTS


@dataclass(frozen=True)
class Tls:
    """PEM files for https:// and grpcs://. Without root certificates, those of the system are trusted;
    a private key and its certificate chain are for a server that wants to know its clients."""

    root_certificates: str | None = None
    private_key: str | None = None
    certificate_chain: str | None = None


class Server(NamedTuple):
    """A URL's parts: `http` or `grpc`, whether by TLS, host and port, and what stands behind them."""

    protocol: str
    secure: bool
    address: str
    path: str


def server(url: str) -> Server:
    """ValueError for what is no URL of a server."""
    parts = urlsplit(url)
    protocol, path = parts.scheme[:4], parts.path.rstrip("/")
    if parts.scheme not in ("http", "https", "grpc", "grpcs") or not parts.netloc:
        raise ValueError(f"{url} is no server; write http://host:port or grpc://host:port")
    if protocol == "grpc" and path:
        raise ValueError(f"{url} has the path {path}, which gRPC has not; drop it")
    return Server(protocol, parts.scheme.endswith("s"), parts.netloc, path)


class Transport(Protocol):
    """Sends one request at a time for each thread; all of it raises InferenceError."""

    def infer(
        self,
        inputs: Arrays,
        outputs: Sequence[str],
        timeout_s: float,
        options: Mapping[str, Any],
        region: Region | None,
    ) -> Arrays: ...

    def ready(self, timeout_s: float) -> bool: ...

    def register(self, region: Region, timeout_s: float) -> None: ...

    def unregister(self, region: Region, timeout_s: float) -> None: ...

    def close(self) -> None: ...


def tensors(api: Any, inputs: Arrays, region: Region | None) -> list[Any]:
    """The inputs as tritonclient's: `api` is its module for HTTP or gRPC."""
    found = []
    for name, array in inputs.items():
        tensor = api.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        if region and name in region.places:
            offset, size = region.places[name]
            tensor.set_shared_memory(region.name, size, offset)
        else:
            tensor.set_data_from_numpy(array)
        found.append(tensor)
    return found


def wanted(api: Any, outputs: Sequence[str]) -> list[Any]:
    return [api.InferRequestedOutput(name) for name in outputs]


def arrays(result: Any, outputs: Sequence[str]) -> Arrays:
    """The outputs of an answer of tritonclient; ServerFailure if one is missing."""
    found = {}
    for name in outputs:
        array = result.as_numpy(name)
        if array is None:  # to Triton that is no error
            raise ServerFailure(f"the server's answer has no {name}")
        is_bf16 = name in OUTPUTS and OUTPUTS[name].datatype == "BF16"
        found[name] = array.astype(np.float32) if is_bf16 else array  # NumPy has no BF16
    return found
