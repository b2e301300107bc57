# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Clients of an ensemble that serves sequences, whose requests have one row and a place in a sequence."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from .aio import BaseAsyncClient
from .batches import Arrays, Inputs
from .sync import BaseClient
from .tensors import OUTPUTS


def position(sequence: int, start: bool, end: bool) -> dict[str, Any]:
    """As tritonclient wants it; without a `sequence` the request is one of its own."""
    return {
        "sequence_id": sequence or random.randrange(1, 2**63),
        "sequence_start": start or not sequence,
        "sequence_end": end or not sequence,
    }


class SequenceClient(BaseClient):
    def infer(
        self,
        inputs: Inputs,
        sequence: int = 0,
        start: bool = False,
        end: bool = False,
        *,
        outputs: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> Arrays:
        """The outputs for one request of a sequence, arrays of shape [batch, *dims].

        Requests of one `sequence`, a number from 1, belong together: say which is the first and
        which the last. Without it the request is a sequence of its own. None is tried again.

        Raises InferenceError.
        """
        return self._infer(inputs, outputs, timeout, position(sequence, start, end))

    def send(
        self,
        inputs: Arrays,
        *,
        outputs: Sequence[str] = tuple(OUTPUTS),
        timeout: float | None = None,
    ) -> Arrays:
        """One request as it is, a sequence of its own."""
        return self._sent(inputs, outputs, self._begun(timeout), position(0, True, True))


class AsyncSequenceClient(BaseAsyncClient):
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
        """The outputs for one request of a sequence: see SequenceClient."""
        return await self._infer(inputs, outputs, timeout, position(sequence, start, end))

    async def send(
        self,
        inputs: Arrays,
        *,
        outputs: Sequence[str] = tuple(OUTPUTS),
        timeout: float | None = None,
    ) -> Arrays:
        """One request as it is, a sequence of its own."""
        return await self._sent(inputs, outputs, self._begun(timeout), position(0, True, True))
