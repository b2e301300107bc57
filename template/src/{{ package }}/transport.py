# Managed by triton-ensemble-template: edits are merged by `make update`.
"""What all ways to the server have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import numpy as np
from tritonclient.utils import np_to_triton_dtype  # type: ignore[import-untyped]

from .batches import Arrays
from .deadline import Deadline
from .errors import ServerFailure
from .shared_memory import Region
from .tensors import OUTPUTS


@dataclass(frozen=True)
class Tls:
    """PEM files for https:// and grpcs://. Without root certificates, those of the system are trusted;
    a private key and its certificate chain are for a server that wants to know its clients.

    ValueError for a file that is not there, and for one of these two without the other.
    """

    root_certificates: str | None = None
    private_key: str | None = None
    certificate_chain: str | None = None

    def __post_init__(self) -> None:
        for option, path in vars(self).items():
            if path is not None and not Path(path).is_file():
                raise ValueError(f"{option} {path}: there is no such file")
        if (self.private_key is None) != (self.certificate_chain is None):
            raise ValueError("private_key and certificate_chain belong together; give both")


class Server(NamedTuple):
    """A URL's parts: `http` or `grpc`, whether by TLS, host and port, and what stands behind them."""

    protocol: str
    secure: bool
    address: str
    path: str


def server(url: str, tls: Tls | None) -> Server:
    """ValueError for what is no URL of a server, or none for TLS where it is asked for."""
    parts = urlsplit(url)
    protocol, path, secure = parts.scheme[:4], parts.path.rstrip("/"), parts.scheme.endswith("s")
    if parts.scheme not in ("http", "https", "grpc", "grpcs") or not _is_address(parts.netloc):
        raise ValueError(f"{url} is no server; write http://host:port or grpc://host:port")
    if parts.query or parts.fragment:
        raise ValueError(f"{url} has more than a path; drop what follows")
    if protocol == "grpc" and path:
        raise ValueError(f"{url} has the path {path}, which gRPC has not; drop it")
    if tls and not secure:
        raise ValueError(f"{url} is not for TLS; write {protocol}s://{parts.netloc}")
    return Server(protocol, secure, parts.netloc, path)


def _is_address(text: str) -> bool:
    """Host and port; a user belongs into a header."""
    try:
        parts = urlsplit(f"//{text}")
        return bool(parts.hostname) and parts.port != 0 and "@" not in text
    except ValueError:
        return False


class Transport(Protocol):
    """Sends one request at a time for each thread; all of it raises InferenceError."""

    def infer(
        self,
        inputs: Arrays,
        outputs: Sequence[str],
        deadline: Deadline,
        options: Mapping[str, Any],
        region: Region | None,
    ) -> Arrays: ...

    def ready(self, deadline: Deadline) -> bool: ...

    def register(self, region: Region, deadline: Deadline) -> None: ...

    def unregister(self, region: Region, deadline: Deadline) -> None: ...

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
