# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Requests over gRPC, by tritonclient."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from inspect import iscoroutine
from typing import Any
from urllib.parse import SplitResult
from weakref import WeakSet

from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from ..tensors import MODEL
from .batches import Arrays
from .errors import InferenceError, make_error
from .flow import Deadline
from .shared_memory import Region
from .transport import Request, Tls, decode_result, encode_request, is_secure, lower_names

FORKED = (
    "gRPC does not survive a fork, and this process was forked while a gRPC client had a connection; "
    "close the client before the fork, start the process by spawn, or write http://host:port"
)
in_process: dict[str, Any] = {}  # connections to servers of this process, by HOST in grpc://HOST
_open: WeakSet[Any] = WeakSet()
_lost: list[Any] = []  # connections that were open in the parent of a forked process


def lose_connections() -> None:
    """Mark the connections of the parent process as lost. With gRPC 1.85 calls then hang without a deadline, or fail."""
    _lost.extend(_open)


def is_lost() -> bool:
    """Return whether this process was forked while gRPC was in use: to call, or to stop a call, may hang."""
    return bool(_lost)


def refuse_lost() -> None:
    """Raise InferenceError if gRPC does not work in this process."""
    if is_lost():
        raise InferenceError(FORKED)


def grpc_error(status: str | None, text: str | None, deadline: Deadline) -> InferenceError:
    """Return the error of a gRPC status, such as `StatusCode.UNAVAILABLE`."""
    if status == "StatusCode.DEADLINE_EXCEEDED":
        return deadline.make_timeout()
    return make_error(status, text)


@contextmanager
def translate_errors(deadline: Deadline) -> Iterator[None]:
    """Raise tritonclient's error as an InferenceError."""
    try:
        yield
    except InferenceServerException as error:
        raise grpc_error(error.status(), error.message(), deadline) from None


class GrpcTransport:
    """One connection for all requests; `api` is tritonclient's module for gRPC, or its module for asyncio.

    With the first all methods block, and threads may share them.
    """

    def __init__(self, api: Any, server: SplitResult, headers: Mapping[str, str], tls: Tls) -> None:
        self._api, self._server, self._tls = api, server, tls
        self._is_closed = False
        self.headers = lower_names(headers)

    def connect(self) -> Any:
        """Return a new client of tritonclient."""
        refuse_lost()
        if self._is_closed:
            raise InferenceError("the connection is closed")
        if self._server.netloc in in_process:
            return in_process[self._server.netloc]
        made = self._api.InferenceServerClient(
            self._server.netloc,
            ssl=is_secure(self._server),
            root_certificates=self._tls.root_certificates,
            private_key=self._tls.private_key,
            certificate_chain=self._tls.certificate_chain,
        )
        _open.add(made)
        return made

    @contextmanager
    def lend_connection(self) -> Iterator[Any]:
        """Yield a connection for one stream."""
        connection = self.connect()
        try:
            yield connection
        finally:
            if not is_lost():
                connection.close()
                _open.discard(connection)

    @cached_property
    def connection(self) -> Any:
        """The connection, opened by the first request: with asyncio it belongs to the event loop that runs then."""
        return self.connect()

    async def infer(self, request: Request, region: Region | None = None) -> Arrays:
        try:
            inputs, outputs = encode_request(grpc, request, region)
            result = self.connection.infer(
                MODEL,
                inputs,
                outputs=outputs,
                headers={**self.headers, **request.headers},
                timeout=request.deadline.left_us(),
                client_timeout=request.deadline.left(),
                **request.options,
            )
            if iscoroutine(result):
                result = await result
            return decode_result(result, request.outputs)
        except InferenceServerException as error:  # as translate_errors, in less time
            raise grpc_error(error.status(), error.message(), request.deadline) from None

    async def ready(self, deadline: Deadline) -> bool:
        with translate_errors(deadline):
            return bool(await self._call(self.connection.is_model_ready, deadline, MODEL))

    async def register(self, region: Region, deadline: Deadline) -> None:
        call = self.connection.register_system_shared_memory
        with translate_errors(deadline):
            await self._call(call, deadline, region.name, region.key, region.size_bytes)

    async def unregister(self, region: Region, deadline: Deadline) -> None:
        with translate_errors(deadline):
            call = self.connection.unregister_system_shared_memory
            await self._call(call, deadline, region.name)

    def forget(self) -> None:
        """Drop the connection of the parent process."""
        vars(self).pop("connection", None)

    async def close(self) -> None:
        """Close the connection, and keep no reference: a forked process that drops the last one hangs."""
        self._is_closed = True
        if connection := vars(self).pop("connection", None):
            await _settle(connection.close())
            _open.discard(connection)

    async def _call(self, method: Any, deadline: Deadline, *arguments: Any) -> Any:
        options = {"headers": self.headers, "client_timeout": deadline.left()}
        return await _settle(method(*arguments, **options))


async def _settle(result: Any) -> Any:
    """Return a result, or a coroutine's result: tritonclient's two modules differ only in this."""
    return await result if iscoroutine(result) else result
