"""Closed-loop load on a decoupled pipeline: a stream for each request, and when its responses come."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from tritonclient.grpc import service_pb2  # type: ignore[import-untyped]

from triton_ensemble.measure.closed_loop import (
    TIMEOUT_S,
    Address,
    ClosedLoop,
    percentiles_us,
)
from triton_ensemble.measure.figures import Load, Stream

METHOD = "/inference.GRPCInferenceService/ModelStreamInfer"


class StreamedLoop(ClosedLoop):
    """Callers that send the next request when the last one has its last response."""

    def __init__(self, address: Address, bodies: Sequence[Sequence[bytes]]) -> None:
        super().__init__(address, bodies)
        # Of responses: when, and seconds since the request, or since the response before.
        self._first: list[tuple[float, float]] = []
        self._next: list[tuple[float, float]] = []

    def measure(self, seconds: float) -> Load:
        """Return the load of the next `seconds`, with what came of streams in them."""
        start = time.perf_counter()
        load = super().measure(seconds)
        end = time.perf_counter()
        first, later = (
            [took for when, took in responses if start <= when < end]
            for responses in (self._first, self._next)
        )
        (first_p50, first_p99), (p50, p99) = (percentiles_us(t, 50, 99) for t in (first, later))
        per_s = (len(first) + len(later)) / (end - start)
        return dataclasses.replace(load, stream=Stream(per_s, first_p50, first_p99, p50, p99))

    def _method(self, channel: Any) -> Any:
        parse = service_pb2.ModelStreamInferResponse.FromString
        return channel.stream_stream(METHOD, response_deserializer=parse)

    def _ask(self, infer: Any, body: bytes) -> str:
        before, responses = time.perf_counter(), self._first
        for response in infer(iter([body]), timeout=TIMEOUT_S):
            if response.error_message:
                return str(response.error_message)
            before, responses = self._came(before, responses), self._next
        return ""

    async def _ask_async(self, infer: Any, body: bytes) -> str:
        before, responses = time.perf_counter(), self._first
        async for response in infer(iter([body]), timeout=TIMEOUT_S):
            if response.error_message:
                return str(response.error_message)
            before, responses = self._came(before, responses), self._next
        return ""

    def _came(self, before: float, responses: list[tuple[float, float]]) -> float:
        now = time.perf_counter()
        responses.append((now, now - before))
        return now
