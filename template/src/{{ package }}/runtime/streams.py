# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Clients of a decoupled ensemble, which may answer a request any number of times.

They call over gRPC. A call is a stream; in the synchronous client each stream has its own connection.
"""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any

from grpc import RpcError  # type: ignore[import-untyped]

from ..tensors import MODEL, OUTPUTS, SEQUENTIAL
from .batches import Arrays, Inputs, arrays
from .clients import BaseAsyncClient, BaseClient
from .errors import InferenceError
from .grpc_transport import (
    GrpcTransport,
    decode_result,
    encode_request,
    grpc_error,
    lost,
    opened,
    refuse_lost,
    translate_errors,
)
from .positions import position, request_arrays, split_sequence
from .recorder import Recorder
from .transport import Deadline, Request

# With this header, a stream whose request fails while it runs ends with a status. A request that the server refuses
# earlier has only a text. Without the header, both have only a text.
STATUS = {"triton_grpc_error": "true"}


class StreamClient(BaseClient):
    """The client for threads; see BaseClient."""

    def stream(
        self,
        inputs: Inputs,
        sequence: int = 0,
        start: bool = False,
        end: bool = False,
        *,
        timeout: float | None = None,
    ) -> Generator[Arrays]:
        """The answers as they come, each by output: arrays of shape [rows, *dims], texts as bytes.

        `timeout` (seconds) is for all of them. To stop early, close the generator. In a pipeline with `sequence`,
        give the number of the sequence, and say which request is its first and which its last. Without a number,
        the request is its own sequence.
        """
        place: dict[str, Any] = {"sequence": sequence, "start": start, "end": end}
        return self.send_stream(request_arrays(inputs), timeout=timeout, **place)

    def answers(self, inputs: Inputs, *, timeout: float | None = None) -> Generator[Arrays]:
        """Yield all answers to a call, whether the ensemble is decoupled or not.

        In a pipeline with `sequence`, the rows are one sequence, sent in order; a row that fails ends it.
        """
        given, deadline = arrays(inputs), self._begin(timeout)
        sequence = random.randrange(1, 2**63) if SEQUENTIAL else 0
        try:
            for each, start, end in split_sequence(given):
                yield from self.stream(each, sequence, start, end, timeout=deadline.left())
        except InferenceError:
            if not end:  # else Triton would hold the sequence's place
                with suppress(InferenceError):
                    [*self.stream(each, sequence, end=True)]
            raise

    def send_stream(
        self,
        inputs: Arrays,
        *,
        timeout: float | None = None,
        request_id: str = "",
        headers: Mapping[str, str] | None = None,
        sequence: int = 0,
        start: bool = False,
        end: bool = False,
    ) -> Generator[Arrays]:
        """The same for a request as it is, not checked; see BaseAsyncClient.send."""
        if not isinstance(self._transport, GrpcTransport):
            raise ValueError("a decoupled ensemble answers over gRPC; write grpc://host:port")
        options = {"request_id": request_id, **position(sequence, start, end)}
        request = Request(inputs, tuple(OUTPUTS), self._begin(timeout), options, headers or {})
        return _stream(self._transport, request, self._recorder)


@contextmanager
def _lend(transport: GrpcTransport) -> Iterator[Any]:
    """Yield a connection for one stream."""
    connection = transport.connect()
    try:
        yield connection
    finally:
        if not lost:
            connection.close()
            opened.discard(connection)


def _stream(
    transport: GrpcTransport, request: Request, recorder: Recorder | None
) -> Generator[Arrays]:
    exchange = recorder and recorder.begin(request.inputs, request.options)
    answers: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
    with translate_errors(request.deadline), _lend(transport) as stream:
        stream.start_stream(
            lambda result, error: answers.put((result, error)),
            stream_timeout=request.deadline.left(),
            headers={**transport.headers, **request.headers, **STATUS},
        )
        is_over = False
        try:
            tensors, outputs = encode_request(request)
            stream.async_stream_infer(
                MODEL,
                tensors,
                outputs=outputs,
                enable_empty_final_response=True,
                timeout=request.deadline.left_us(),
                **request.options,
            )
            while not is_over:
                refuse_lost()
                result, error = answers.get()
                if error:
                    is_over = True
                    raise _make_refusal(error, request.deadline)
                response = result.get_response()
                is_over = response.parameters["triton_final_response"].bool_param
                if response.outputs:
                    answer = decode_result(result, request.outputs)
                    if exchange:
                        exchange.add(answer)
                    yield answer
            if exchange:
                exchange.end()
        finally:
            # A stream that is cancelled holds up the server's shutdown.
            if not lost:
                stream.stop_stream(cancel_requests=not is_over)


class AsyncStreamClient(BaseAsyncClient):
    """The client for asyncio; see BaseAsyncClient."""

    def stream(
        self,
        inputs: Inputs,
        sequence: int = 0,
        start: bool = False,
        end: bool = False,
        *,
        timeout: float | None = None,
    ) -> AsyncGenerator[Arrays]:
        """The answers as they come, each by output: arrays of shape [rows, *dims], texts as bytes.

        `timeout` (seconds) is for all of them. To stop early, close the generator. In a pipeline with `sequence`,
        give the number of the sequence, and say which request is its first and which its last. Without a number,
        the request is its own sequence.
        """
        place: dict[str, Any] = {"sequence": sequence, "start": start, "end": end}
        return self.send_stream(request_arrays(inputs), timeout=timeout, **place)

    async def send_stream(
        self,
        inputs: Arrays,
        *,
        timeout: float | None = None,
        request_id: str = "",
        headers: Mapping[str, str] | None = None,
        sequence: int = 0,
        start: bool = False,
        end: bool = False,
    ) -> AsyncGenerator[Arrays]:
        """The same for a request as it is, not checked; see BaseAsyncClient.send."""
        assert isinstance(self._transport, GrpcTransport)
        deadline, place = self._begin(timeout), position(sequence, start, end)
        exchange = self._recorder and self._recorder.begin(inputs, place)
        with translate_errors(deadline):
            tensors, outputs = encode_request(Request(inputs, tuple(OUTPUTS), deadline))
            answers = self._transport.connection.stream_infer(
                _once(
                    {
                        "model_name": MODEL,
                        "inputs": tensors,
                        "outputs": outputs,
                        "request_id": request_id,
                        "timeout": deadline.left_us(),
                        **place,
                    }
                ),
                stream_timeout=deadline.left(),
                headers={**self._transport.headers, **(headers or {}), **STATUS},
            )
            failed = None
            try:
                async for result, error in answers:
                    failed = failed or error
                    if result:
                        answer = decode_result(result, tuple(OUTPUTS))
                        if exchange:
                            exchange.add(answer)
                        yield answer
            except RpcError as error:
                raise grpc_error(str(error.code()), error.details(), deadline) from None
            finally:
                answers.cancel()  # nothing, where the server has ended the stream
            if failed:
                raise _make_refusal(failed, deadline)
            if exchange:
                exchange.end()


def _make_refusal(error: Any, deadline: Deadline) -> InferenceError:
    return grpc_error(error.status() or "INVALID_ARGUMENT", error.message(), deadline)


async def _once(request: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    yield request
