# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Requests over gRPC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from .batches import Arrays
from .deadline import Deadline
from .errors import InferenceError, failure
from .shared_memory import Region
from .tensors import MODEL
from .transport import Server, Tls, arrays, tensors, wanted


def connection(api: Any, server: Server, tls: Tls) -> Any:
    """tritonclient's client: `api` is its module for gRPC, or that for asyncio."""
    return api.InferenceServerClient(
        server.address,
        ssl=server.secure,
        root_certificates=tls.root_certificates,
        private_key=tls.private_key,
        certificate_chain=tls.certificate_chain,
    )


def metadata(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}  # gRPC refuses capitals


def failure_of(text: str | None, status: str | None, deadline: Deadline) -> InferenceError:
    """The error of a gRPC status."""
    if status == "StatusCode.DEADLINE_EXCEEDED":
        return deadline.exceeded()
    return failure(text, status)


@contextmanager
def translated(deadline: Deadline) -> Iterator[None]:
    """tritonclient's error as one of ours."""
    try:
        yield
    except InferenceServerException as error:
        raise failure_of(error.message(), error.status(), deadline) from None


class GrpcTransport:
    """One connection, which all threads share."""

    def __init__(self, server: Server, headers: Mapping[str, str], tls: Tls) -> None:
        self._headers = metadata(headers)
        self._connection = connection(grpc, server, tls)

    def infer(
        self,
        inputs: Arrays,
        outputs: Sequence[str],
        deadline: Deadline,
        options: Mapping[str, Any],
        region: Region | None,
    ) -> Arrays:
        with translated(deadline):
            result = self._connection.infer(
                MODEL,
                tensors(grpc, inputs, region),
                outputs=wanted(grpc, outputs),
                headers=self._headers,
                client_timeout=deadline.left(),
                **options,
            )
            return arrays(result, outputs)

    def ready(self, deadline: Deadline) -> bool:
        with translated(deadline):
            ready = self._connection.is_model_ready(
                MODEL, headers=self._headers, client_timeout=deadline.left()
            )
        return bool(ready)

    def register(self, region: Region, deadline: Deadline) -> None:
        with translated(deadline):
            self._connection.register_system_shared_memory(
                region.name,
                region.key,
                region.size_bytes,
                headers=self._headers,
                client_timeout=deadline.left(),
            )

    def unregister(self, region: Region, deadline: Deadline) -> None:
        with translated(deadline):
            self._connection.unregister_system_shared_memory(
                region.name, headers=self._headers, client_timeout=deadline.left()
            )

    def close(self) -> None:
        self._connection.close()
