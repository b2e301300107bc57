# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The asyncio client, without the types of the ensemble: the interface of the synchronous one, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import aio  # type: ignore[import-untyped]

from .batches import Arrays, Inputs, arrays, joined, named, part, parts, rows
from .deadline import Deadline
from .errors import CLOSED, InferenceError
from .flow import Answer, flow
from .grpc_transport import connection, metadata, translated
from .shared_memory import Region, Regions, explained
from .tensors import MAX_BATCH_SIZE, MODEL, OUTPUTS
from .transport import Tls, server, tensors, wanted
from .transport import arrays as arrays_of

Self = TypeVar("Self", bound="BaseAsyncClient")


class BaseAsyncClient:
    """Calls the ensemble over gRPC. A client belongs to the event loop that it is first used in.

    url: `grpc://` or `grpcs://` with host and port. For the rest see BaseClient.
    """

    def __init__(
        self,
        url: str = "grpc://127.0.0.1:8001",
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
        self._in_flight = in_flight
        self._headers = metadata(headers or {})
        self._server, self._tls = server(url, tls), tls or Tls()
        if self._server.protocol != "grpc":
            raise ValueError(f"{url} is not gRPC, which asyncio needs here; write grpc://host:port")
        self._opened: Any = None
        self._closed = False
        self._regions = Regions() if shared_memory else None

    @property
    def max_batch_size(self) -> int:
        """Rows that one request may have; 0: the ensemble has no batch dimension."""
        return MAX_BATCH_SIZE

    @property
    def _connection(self) -> Any:
        if self._opened is None:
            self._opened = connection(aio, self._server, self._tls)
        return self._opened

    async def ready(self, timeout: float | None = None) -> bool:
        """Whether the server is there and says that it has loaded the ensemble."""
        try:
            deadline = self._begun(timeout)
            with translated(deadline):
                ready = await self._connection.is_model_ready(
                    MODEL, headers=self._headers, client_timeout=deadline.left()
                )
        except InferenceError:
            return False
        return bool(ready)

    async def infer(
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
        return await self._infer(inputs, outputs, timeout)

    async def send(
        self,
        inputs: Arrays,
        *,
        outputs: Sequence[str] = tuple(OUTPUTS),
        timeout: float | None = None,
    ) -> Arrays:
        """One request as it is: not checked, not cut, not tried again."""
        return await self._sent(inputs, outputs, self._begun(timeout), {})

    async def close(self) -> None:
        """Closes the connection; an idle one delays the server's shutdown."""
        self._closed = True
        if self._regions:
            deadline = Deadline(self.timeout)
            for region in self._regions.registered():
                try:
                    await self._unregister(region, deadline)
                except InferenceError:
                    break  # the server is gone, or has it no more
            self._regions.close()
        if self._opened is not None:
            await self._opened.close()

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _begun(self, timeout: float | None) -> Deadline:
        """The time that a call has; InferenceError where there can be none."""
        if self._closed:
            raise InferenceError(CLOSED)
        return Deadline(self.timeout if timeout is None else timeout)

    async def _infer(
        self,
        inputs: Inputs,
        outputs: Sequence[str] | None,
        timeout: float | None,
        options: Mapping[str, Any] | None = None,
    ) -> Arrays:
        """A checked call. One with options, which belongs to a sequence, is neither cut nor tried again."""
        given, wanted, deadline = arrays(inputs), named(outputs), self._begun(timeout)
        if options:
            return await self._sent(given, wanted, deadline, options)
        turns = asyncio.Semaphore(self._in_flight)
        requests = [
            asyncio.ensure_future(self._request(given, cut, wanted, deadline, turns))
            for cut in parts(rows(given))
        ]
        try:
            return joined([await request for request in requests])
        finally:
            for request in requests:
                request.cancel()
            await asyncio.gather(*requests, return_exceptions=True)

    async def _request(
        self,
        given: Arrays,
        wanted: range,
        outputs: Sequence[str],
        deadline: Deadline,
        turns: asyncio.Semaphore,
    ) -> Arrays:
        """The answer to some rows of a call."""
        steps, answer = flow(wanted, deadline, self._retries), None
        async with turns:
            while True:
                try:
                    step = steps.send(answer)
                except StopIteration as end:
                    return dict(end.value)
                answer = await self._done(step, given, outputs, deadline)

    async def _done(
        self, step: range | float, given: Arrays, outputs: Sequence[str], deadline: Deadline
    ) -> Answer:
        if not isinstance(step, range):
            await asyncio.sleep(step)
            return None
        try:
            return await self._sent(part(given, step), outputs, deadline, {})
        except InferenceError as error:
            return error

    async def _sent(
        self,
        inputs: Arrays,
        outputs: Sequence[str],
        deadline: Deadline,
        options: Mapping[str, Any],
    ) -> Arrays:
        if self._regions is None:
            return await self._asked(inputs, outputs, deadline, options, None)
        with self._regions.lent(inputs) as region:
            if region.registered:
                with region.forgotten():
                    return await self._asked(inputs, outputs, deadline, options, region)
            with explained():
                await self._register(region, deadline)
            region.registered = True
            return await self._asked(inputs, outputs, deadline, options, region)

    async def _asked(
        self,
        inputs: Arrays,
        outputs: Sequence[str],
        deadline: Deadline,
        options: Mapping[str, Any],
        region: Region | None,
    ) -> Arrays:
        with translated(deadline):
            result = await self._connection.infer(
                MODEL,
                tensors(grpc, inputs, region),
                outputs=wanted(grpc, outputs),
                headers=self._headers,
                client_timeout=deadline.left(),
                **options,
            )
            return arrays_of(result, outputs)

    async def _register(self, region: Region, deadline: Deadline) -> None:
        with translated(deadline):
            await self._connection.register_system_shared_memory(
                region.name,
                region.key,
                region.size_bytes,
                headers=self._headers,
                client_timeout=deadline.left(),
            )

    async def _unregister(self, region: Region, deadline: Deadline) -> None:
        with translated(deadline):
            await self._connection.unregister_system_shared_memory(
                region.name, headers=self._headers, client_timeout=deadline.left()
            )
