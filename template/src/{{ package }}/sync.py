# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The synchronous client, without the types of the ensemble."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any, TypeVar

from .batches import Arrays, Inputs, arrays, joined, named, part, parts, rows
from .deadline import Deadline
from .errors import CLOSED, InferenceError
from .flow import Answer, flow
from .grpc_transport import GrpcTransport
from .http_transport import HttpTransport
from .shared_memory import Regions, explained
from .tensors import MAX_BATCH_SIZE, OUTPUTS, URL
from .transport import Tls, Transport, server

Self = TypeVar("Self", bound="BaseClient")


class BaseClient:
    """Calls the ensemble over HTTP or gRPC. Threads may share a client.

    url: `http://`, `https://`, `grpc://` or `grpcs://` with host and port.
    timeout: seconds that a call has, with all its requests and retries, where it says nothing else.
    retries: how often a request is sent again that the server was not there or too busy for.
    in_flight: requests that a call with more rows than `max_batch_size` has at once.
    shared_memory: inputs go by system shared memory, to a server on this machine that allows it.
    headers: sent with each request; tls: the certificates, where they are not the system's.
    """

    def __init__(
        self,
        url: str = URL,
        *,
        timeout: float = 60.0,
        retries: int = 4,
        in_flight: int = 4,
        shared_memory: bool = False,
        headers: Mapping[str, str] | None = None,
        tls: Tls | None = None,
    ) -> None:
        if in_flight < 1:
            raise ValueError(f"in_flight is {in_flight}; it must be 1 or more")
        self.timeout = timeout
        self._retries = retries
        self._server, self._headers, self._tls = server(url, tls), dict(headers or {}), tls or Tls()
        transport = GrpcTransport if self._server.protocol == "grpc" else HttpTransport
        self._transport: Transport = transport(self._server, self._headers, self._tls)
        self._regions = Regions() if shared_memory else None
        self._pool = ThreadPoolExecutor(in_flight)  # starts its threads when there is work
        self._closed = False

    @property
    def max_batch_size(self) -> int:
        """Rows that one request may have; 0: the ensemble has no batch dimension."""
        return MAX_BATCH_SIZE

    def ready(self, timeout: float | None = None) -> bool:
        """Whether the server is there and says that it has loaded the ensemble."""
        try:
            return self._transport.ready(self._begun(timeout))
        except InferenceError:
            return False

    def infer(
        self,
        inputs: Inputs,
        *,
        outputs: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> Arrays:
        """The outputs by name, all of them where `outputs` are not named: for the `inputs`, by name too.

        Each is an array of shape [batch, *dims], without batch where the ensemble has no batch
        dimension; texts are bytes. `timeout` (seconds) is for the whole call.

        Raises InferenceError.
        """
        return self._infer(inputs, outputs, timeout)

    def answers(self, inputs: Inputs, *, timeout: float | None = None) -> Iterator[Arrays]:
        """All answers to a call, of whatever ensemble: this one gives one."""
        yield self.infer(inputs, timeout=timeout)

    def send(
        self,
        inputs: Arrays,
        *,
        outputs: Sequence[str] = tuple(OUTPUTS),
        timeout: float | None = None,
    ) -> Arrays:
        """One request as it is: not checked, not cut, not tried again."""
        return self._sent(inputs, outputs, self._begun(timeout), {})

    def close(self) -> None:
        """Closes the connections, also under calls of other threads; an idle one delays the server's shutdown."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._regions:
            deadline = Deadline(self.timeout)
            for region in self._regions.registered():
                try:
                    self._transport.unregister(region, deadline)
                except InferenceError:
                    break  # the server is gone, or has it no more
            self._regions.close()
        self._transport.close()
        self._pool.shutdown()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begun(self, timeout: float | None) -> Deadline:
        """The time that a call has; InferenceError where there can be none."""
        if self._closed:
            raise InferenceError(CLOSED)
        return Deadline(self.timeout if timeout is None else timeout)

    def _infer(
        self,
        inputs: Inputs,
        outputs: Sequence[str] | None,
        timeout: float | None,
        options: Mapping[str, Any] | None = None,
    ) -> Arrays:
        """A checked call. One with options, which belongs to a sequence, is neither cut nor tried again."""
        given, wanted, deadline = arrays(inputs), named(outputs), self._begun(timeout)
        if options:
            return self._sent(given, wanted, deadline, options)
        cut = parts(rows(given))
        if len(cut) == 1:
            return self._request(given, cut[0], wanted, deadline)
        futures = [self._pool.submit(self._request, given, p, wanted, deadline) for p in cut]
        try:
            return joined([future.result() for future in futures])
        except CancelledError:
            raise InferenceError(CLOSED) from None
        finally:
            for future in futures:
                future.cancel()

    def _request(
        self, given: Arrays, wanted: range, outputs: Sequence[str], deadline: Deadline
    ) -> Arrays:
        """The answer to some rows of a call."""
        steps, answer = flow(wanted, deadline, self._retries), None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return dict(end.value)
            answer = self._done(step, given, outputs, deadline)

    def _done(
        self, step: range | float, given: Arrays, outputs: Sequence[str], deadline: Deadline
    ) -> Answer:
        if not isinstance(step, range):
            time.sleep(step)
            return None
        try:
            return self._sent(part(given, step), outputs, deadline, {})
        except InferenceError as error:
            if self._closed:
                raise InferenceError(CLOSED) from None
            return error

    def _sent(
        self,
        inputs: Arrays,
        outputs: Sequence[str],
        deadline: Deadline,
        options: Mapping[str, Any],
    ) -> Arrays:
        infer = self._transport.infer
        if self._regions is None:
            return infer(inputs, outputs, deadline, options, None)
        with self._regions.lent(inputs) as region:
            if region.registered:
                with region.forgotten():
                    return infer(inputs, outputs, deadline, options, region)
            with explained():
                self._transport.register(region, deadline)
            region.registered = True
            return infer(inputs, outputs, deadline, options, region)
