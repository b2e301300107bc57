# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Clients of a decoupled ensemble, which answers a request any number of times: over gRPC, each call on a stream of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import closing
from queue import SimpleQueue
from typing import Any

from grpc import RpcError  # type: ignore[import-untyped]
from tritonclient import grpc  # type: ignore[import-untyped]

from .aio import BaseAsyncClient
from .batches import Arrays, Inputs, arrays
from .deadline import Deadline
from .errors import InferenceError
from .grpc_transport import connection, failure_of, metadata, translated
from .sync import BaseClient
from .tensors import MODEL, OUTPUTS
from .transport import arrays as arrays_of
from .transport import tensors, wanted

# With it, a stream whose request fails as it runs ends with a status; what the server refuses before
# that has a text alone. Without it, both have.
STATUS = {"triton_grpc_error": "true"}


class StreamClient(BaseClient):
    """The synchronous one; see BaseClient."""

    def stream(self, inputs: Inputs, *, timeout: float | None = None) -> Generator[Arrays]:
        """The answers as they come, each by output: arrays of shape [rows, *dims], texts as bytes.

        `timeout` (seconds) is for all of them. To stop early, close the generator.
        """
        return self.send_stream(arrays(inputs), timeout=timeout)

    def answers(self, inputs: Inputs, *, timeout: float | None = None) -> Generator[Arrays]:
        """All answers to a call, of whatever ensemble."""
        return self.stream(inputs, timeout=timeout)

    def send_stream(self, inputs: Arrays, *, timeout: float | None = None) -> Generator[Arrays]:
        """The same for a request as it is, not checked."""
        if self._server.protocol != "grpc":
            raise ValueError("a decoupled ensemble answers over gRPC; write grpc://host:port")
        return self._streamed(inputs, self._begun(timeout))

    def _streamed(self, inputs: Arrays, deadline: Deadline) -> Generator[Arrays]:
        answers: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        with translated(deadline), closing(connection(grpc, self._server, self._tls)) as stream:
            stream.start_stream(
                lambda result, error: answers.put((result, error)),
                stream_timeout=deadline.left(),
                headers=metadata(self._headers) | STATUS,
            )
            is_over = False
            try:
                stream.async_stream_infer(
                    MODEL,
                    tensors(grpc, inputs, None),
                    outputs=wanted(grpc, tuple(OUTPUTS)),
                    enable_empty_final_response=True,
                )
                while not is_over:
                    result, error = answers.get()
                    if error:
                        is_over = True
                        raise _refused(error, deadline)
                    response = result.get_response()
                    is_over = response.parameters["triton_final_response"].bool_param
                    if response.outputs:
                        yield arrays_of(result, tuple(OUTPUTS))
            finally:
                # A stream that is cancelled holds up the server's shutdown.
                stream.stop_stream(cancel_requests=not is_over)


class AsyncStreamClient(BaseAsyncClient):
    """The asyncio one; see BaseAsyncClient."""

    def stream(self, inputs: Inputs, *, timeout: float | None = None) -> AsyncGenerator[Arrays]:
        """The answers as they come, each by output: arrays of shape [rows, *dims], texts as bytes.

        `timeout` (seconds) is for all of them. To stop early, close the generator.
        """
        return self.send_stream(arrays(inputs), timeout=timeout)

    async def send_stream(
        self, inputs: Arrays, *, timeout: float | None = None
    ) -> AsyncGenerator[Arrays]:
        """The same for a request as it is, not checked."""
        request = {
            "model_name": MODEL,
            "inputs": tensors(grpc, inputs, None),
            "outputs": wanted(grpc, tuple(OUTPUTS)),
        }
        deadline = self._begun(timeout)
        with translated(deadline):
            answers = self._connection.stream_infer(
                _once(request),
                stream_timeout=deadline.left(),
                headers=self._headers | STATUS,
            )
            failed = None
            try:
                async for result, error in answers:
                    failed = failed or error
                    if result:
                        yield arrays_of(result, tuple(OUTPUTS))
            except RpcError as error:
                raise failure_of(error.details(), str(error.code()), deadline) from None
            finally:
                answers.cancel()  # nothing, where the server has ended the stream
            if failed:
                raise _refused(failed, deadline)


def _refused(error: Any, deadline: Deadline) -> InferenceError:
    return failure_of(error.message(), error.status() or "INVALID_ARGUMENT", deadline)


async def _once(request: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    yield request
