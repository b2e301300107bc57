# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The common part of requests over HTTP and gRPC: the request, its deadline, the server's URL and certificates."""

import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from .batches import Arrays
from .errors import DeadlineExceeded, InvalidInput

LONGEST_S = 86400.0  # sockets do not accept infinity
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0


class Deadline:
    """The end of a call that begins now and has `seconds`; raises InvalidInput for NaN."""

    def __init__(self, seconds: float) -> None:
        if math.isnan(seconds):
            raise InvalidInput("timeout is not a number; give seconds")
        self._seconds = seconds
        self._end = time.monotonic() + min(seconds, LONGEST_S)

    def left(self) -> float:
        """Return the seconds that are left; raise DeadlineExceeded if none are."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.make_timeout()
        return left

    def left_us(self) -> int:
        """Return the same for Triton, in microseconds: it does not tell an ensemble's steps that the client has left."""
        return round(self.left() * 1e6)

    def make_timeout(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"no answer in {self._seconds:g} s")

    def pauses(self, retries: int) -> Iterator[float]:
        """Yield the seconds before each retry, while there is time for one.

        They are random, and their limit doubles each time, so that clients that a server refused
        together do not come back together.
        """
        for attempt in range(retries):
            pause = random.uniform(0, min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt))
            if time.monotonic() + pause >= self._end:
                return
            yield pause


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
    try:
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:  # an impossible port
        is_address = False
    if parts.scheme not in ("http", "https", "grpc", "grpcs") or not is_address:
        raise ValueError(f"{url} is not a server; write http://host:port or grpc://host:port")
    if parts.query or parts.fragment:
        raise ValueError(f"{url} has more than a path; drop what follows")
    path = parts.path.rstrip("/")
    if parts.scheme.startswith("grpc") and path:
        raise ValueError(f"{url} has the path {path}, which gRPC has not; drop it")
    if tls and not parts.scheme.endswith("s"):
        raise ValueError(f"{url} is not for TLS; write {parts.scheme}s://{parts.netloc}")
    return parts._replace(path=path)


def lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers by names in lower case, as gRPC demands; raise ValueError for a header of several lines."""
    for name, value in headers.items():
        if {*"\r\n"} & {*name, *value}:
            raise ValueError(f"header {name!r} has more than one line")
    return {name.lower(): value for name, value in headers.items()}
