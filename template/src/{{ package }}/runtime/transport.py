# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The common part of requests over HTTP and gRPC: the request, the server's URL, its certificates."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from ..tensors import SEQUENTIAL
from .batches import Arrays
from .flow import Deadline


class Request(NamedTuple):
    """One request to the server: the inputs, the names of the outputs, and the deadline of the answer.

    `options` are tritonclient's: the request's id, its position in a sequence. Only this request has `headers`.
    `places` are the inputs in shared memory: region, size and offset by the names of Triton's parameters.
    """

    inputs: Arrays
    outputs: Sequence[str]
    deadline: Deadline
    options: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}
    places: Mapping[str, Mapping[str, Any]] = {}


def position(sequence: int, start: bool, end: bool) -> dict[str, Any]:
    """Return a position as tritonclient expects it; without a `sequence` the request is its own sequence."""
    if not (sequence or SEQUENTIAL):
        return {}
    return {
        "sequence_id": sequence or random.randrange(1, 2**63),
        "sequence_start": start or not sequence,
        "sequence_end": end or not sequence,
    }


@dataclass(frozen=True)
class Tls:
    """PEM files for https:// and grpcs://. Without root certificates, the client trusts the system's.
    Give a private key and its certificate chain if the server asks its clients for them.

    Raises ValueError for a file that does not exist, and for a key without a chain or a chain without a key.
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


def server(url: str, tls: Tls | None) -> SplitResult:
    """Return the parts of a server's URL; raise ValueError for another URL, and for one without TLS if `tls` is given."""
    if "@" in url:  # the text of an error gets into logs
        instead = 'write it without, and give headers={"authorization": ...}'
        raise ValueError(f"the URL has a user or a password in it; {instead}")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https", "grpc", "grpcs") or not _is_address(parts):
        raise ValueError(f"{url} is not a server; write http://host:port or grpc://host:port")
    if parts.query or parts.fragment:
        raise ValueError(f"{url} has more than a path; drop what follows")
    path = parts.path.rstrip("/")
    if is_grpc(parts) and path:
        raise ValueError(f"{url} has the path {path}, which gRPC has not; drop it")
    if tls and not is_secure(parts):
        raise ValueError(f"{url} is not for TLS; write {parts.scheme}s://{parts.netloc}")
    return parts._replace(path=path)


def lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers by names in lower case, as gRPC demands; raise ValueError for a header of several lines."""
    for name, value in headers.items():
        if {*"\r\n"} & {*name, *value}:
            raise ValueError(f"header {name!r} has more than one line")
    return {name.lower(): value for name, value in headers.items()}


def is_grpc(server: SplitResult) -> bool:
    return server.scheme.startswith("grpc")


def is_secure(server: SplitResult) -> bool:
    return server.scheme.endswith("s")


def _is_address(parts: SplitResult) -> bool:
    """Return whether a URL has a host and a possible port."""
    try:
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
