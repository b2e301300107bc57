# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Requests over gRPC, by tritonclient."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from inspect import iscoroutine
from typing import Any
from urllib.parse import SplitResult
from weakref import WeakSet

from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from ..tensors import MODEL, OUTPUTS
from .batches import Arrays
from .bodies import decode_tensor, find_datatype, select
from .errors import InferenceError, make_error
from .transport import Deadline, Request, Tls, lower_names

in_process: dict[str, Any] = {}  # connections to servers of this process, by HOST in grpc://HOST
opened: WeakSet[Any] = WeakSet()
# Connections that were open in the parent of a forked process. To call there, or to stop a call, may hang.
lost: list[Any] = []


def lose_connections() -> None:
    """Mark the connections of the parent process as lost. With gRPC 1.85 calls then hang without a deadline, or fail."""
    lost.extend(opened)


def refuse_lost() -> None:
    """Raise InferenceError if gRPC does not work in this process."""
    if lost:
        reason = "gRPC does not survive a fork, and this process was forked while a gRPC client had a connection"
        instead = "close the client before the fork, start the process by spawn, or write http://host:port"
        raise InferenceError(f"{reason}; {instead}")


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


def encode_request(request: Request) -> tuple[list[Any], list[Any] | None]:
    """Return the inputs and outputs as tritonclient's, None for all outputs."""
    tensors = []
    for name, array in request.inputs.items():
        tensor = grpc.InferInput(name, list(array.shape), find_datatype(array.dtype))
        if place := request.places.get(name):
            tensor.set_shared_memory(*place.values())
        else:
            tensor.set_data_from_numpy(array)
        tensors.append(tensor)
    names = () if tuple(request.outputs) == tuple(OUTPUTS) else request.outputs
    return tensors, [grpc.InferRequestedOutput(name) for name in names] or None


def decode_result(result: Any, outputs: Sequence[str]) -> Arrays:
    """Return the outputs of an answer of tritonclient; raise ServerFailure if one is missing."""
    response = result.get_response()
    pairs = zip(response.outputs, response.raw_output_contents, strict=False)
    return select({o.name: decode_tensor(o.datatype, raw, o.shape) for o, raw in pairs}, outputs)


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
            ssl=self._server.scheme == "grpcs",
            root_certificates=self._tls.root_certificates,
            private_key=self._tls.private_key,
            certificate_chain=self._tls.certificate_chain,
        )
        opened.add(made)
        return made

    @cached_property
    def connection(self) -> Any:
        """The connection, opened by the first request: with asyncio it belongs to the event loop that runs then."""
        return self.connect()

    async def infer(self, request: Request) -> Arrays:
        with translate_errors(request.deadline):
            inputs, outputs = encode_request(request)
            result = self.connection.infer(
                MODEL,
                inputs,
                outputs=outputs,
                headers={**self.headers, **request.headers},
                timeout=request.deadline.left_us(),
                client_timeout=request.deadline.left(),
                **request.options,
            )
            return decode_result(await settle(result), request.outputs)

    async def ready(self, deadline: Deadline) -> bool:
        with translate_errors(deadline):
            options = {"headers": self.headers, "client_timeout": deadline.left()}
            return bool(await settle(self.connection.is_model_ready(MODEL, **options)))

    def forget(self) -> None:
        """Drop the connection of the parent process."""
        vars(self).pop("connection", None)

    async def close(self) -> None:
        """Close the connection, and keep no reference: a forked process that drops the last one hangs."""
        self._is_closed = True
        if connection := vars(self).pop("connection", None):
            await settle(connection.close())
            opened.discard(connection)


async def settle(result: Any) -> Any:
    """Return a result, or a coroutine's result: tritonclient's two modules differ only in this."""
    return await result if iscoroutine(result) else result
