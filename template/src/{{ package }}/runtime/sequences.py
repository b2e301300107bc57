# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Clients of an ensemble that serves sequences: a request has one row, and a position in a sequence."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from ..tensors import OUTPUTS
from .batches import Arrays, Inputs, arrays, join_rows, select_outputs
from .clients import BaseAsyncClient, BaseClient, make_blocking
from .errors import InferenceError
from .positions import position, request_arrays, split_sequence
from .transport import Request


class AsyncSequenceClient(BaseAsyncClient):
    """The client for asyncio; see BaseAsyncClient."""

    async def infer(
        self,
        inputs: Inputs,
        sequence: int = 0,
        start: bool = False,
        end: bool = False,
        *,
        outputs: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> Arrays:
        """Return the outputs for one request of a sequence, as arrays of shape [batch, *dims].

        Requests of one `sequence`, a number from 1, belong together: say which is the first and
        which the last. Without it the request is its own sequence. Requests are not retried.

        Raises InferenceError.
        """
        place = position(sequence, start, end)
        request = Request(
            request_arrays(inputs), select_outputs(outputs), self._begin(timeout), place
        )
        return await self._send_request(request)

    async def send(
        self,
        inputs: Arrays,
        *,
        outputs: Sequence[str] = tuple(OUTPUTS),
        timeout: float | None = None,
        request_id: str = "",
        headers: Mapping[str, str] | None = None,
        sequence: int = 0,
        start: bool = False,
        end: bool = False,
    ) -> Arrays:
        """Send one request of a sequence as it is; see infer and BaseAsyncClient.send."""
        options = {"request_id": request_id, **position(sequence, start, end)}
        return await self._send_request(
            Request(inputs, outputs, self._begin(timeout), options, headers or {})
        )


class SequenceClient(BaseClient):
    """The client for threads; see BaseClient."""

    send = make_blocking(AsyncSequenceClient.send)

    @make_blocking
    async def infer(
        self,
        inputs: Inputs,
        sequence: int = 0,
        start: bool = False,
        end: bool = False,
        *,
        outputs: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> Arrays:
        """Return the outputs for one request of a sequence: see AsyncSequenceClient.infer."""
        place = position(sequence, start, end)
        request = Request(
            request_arrays(inputs), select_outputs(outputs), self._begin(timeout), place
        )
        return await self._send_request(request)

    def answers(self, inputs: Inputs, *, timeout: float | None = None) -> Iterator[Arrays]:
        """Yield the answer to a call whose rows are one sequence, sent in order; a row that fails ends it."""
        given, sequence = arrays(inputs), random.randrange(1, 2**63)
        deadline = self._begin(timeout)
        answers: list[Arrays] = []
        try:
            for row, start, end in split_sequence(given):
                answers.append(self.infer(row, sequence, start, end, timeout=deadline.left()))
        except InferenceError:
            with suppress(InferenceError):  # else Triton would hold the sequence's place
                self.infer(row, sequence, end=True)
            raise
        yield join_rows(answers)
