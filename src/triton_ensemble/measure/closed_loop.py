"""Closed-loop load over gRPC: each caller sends its next request when the last one is answered."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc  # type: ignore[import-untyped]
import numpy as np

from triton_ensemble.measure.figures import Load

METHOD = "/inference.GRPCInferenceService/ModelInfer"
# Measured: up to here a blocking call answers soonest; above, asyncio needs the least CPU.
MOST_THREADS = 4
TIMEOUT_S = 60
OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


@dataclass(frozen=True)
class Address:
    """The address of a server for gRPC: host:port, and whether over TLS."""

    target: str
    secure: bool = False

    def channel(self, api: Any = grpc) -> Any:
        """Return a channel of `grpc`, or of `grpc.aio`."""
        if self.secure:
            return api.secure_channel(self.target, grpc.ssl_channel_credentials(), OPTIONS)
        return api.insecure_channel(self.target, OPTIONS)


class ClosedLoop:
    """Callers that keep a server busy inside a `with` block. `bodies[i]` are the requests of one caller.

    with ClosedLoop(address, bodies) as callers:
        load = callers.measure(5.0)
    """

    def __init__(self, address: Address, bodies: Sequence[Sequence[bytes]]) -> None:
        self._address, self._bodies = address, bodies
        self.latencies_s: list[float] = []  # of the last measurement
        self._answers: list[tuple[float, float, str]] = []  # when, seconds, error
        self._stop = False

    def __enter__(self) -> ClosedLoop:
        if len(self._bodies) <= MOST_THREADS:
            self._channel = self._address.channel()
            self._threads = [threading.Thread(target=self._call, args=(b,)) for b in self._bodies]
        else:
            self._threads = [threading.Thread(target=lambda: asyncio.run(self._call_together()))]
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:  # a Ctrl-C here must not leave callers behind, which would never end
            self._stop = True
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True
        for thread in self._threads:
            thread.join()
        if len(self._bodies) <= MOST_THREADS:
            self._channel.close()

    def measure(self, seconds: float) -> Load:
        """Return the load of the next `seconds`."""
        start, cpu = time.perf_counter(), time.process_time()
        time.sleep(seconds)
        end, cpu = time.perf_counter(), time.process_time() - cpu
        answers = [answer for answer in self._answers if start <= answer[0] < end]
        latencies_s = [took for _, took, error in answers if not error]
        self.latencies_s = latencies_s
        p50, p95, p99 = percentiles_us(latencies_s, 50, 95, 99)
        return Load(
            len(self._bodies),
            len(latencies_s) / (end - start),
            *(p50, p95, p99),
            errors=dict(Counter(error for _, _, error in answers if error)),
            own_cores=cpu / (end - start),
        )

    def _method(self, channel: Any) -> Any:
        return channel.unary_unary(METHOD)

    def _ask(self, infer: Any, body: bytes) -> str:
        """Wait for the answer to a request.

        Return the text of an error that came as an answer, if any.
        """
        infer(body, timeout=TIMEOUT_S)
        return ""

    async def _ask_async(self, infer: Any, body: bytes) -> str:
        await infer(body, timeout=TIMEOUT_S)
        return ""

    def _call(self, bodies: Sequence[bytes]) -> None:
        infer = self._method(self._channel)
        for body in itertools.cycle(bodies):
            if self._stop:
                return
            start = time.perf_counter()
            try:
                error = self._ask(infer, body)
            except grpc.RpcError as raised:
                error = _text(raised)
            self._record(start, error)

    async def _call_together(self) -> None:
        async with self._address.channel(grpc.aio) as channel:
            infer = self._method(channel)
            await asyncio.gather(*(self._call_async(infer, bodies) for bodies in self._bodies))

    async def _call_async(self, infer: Callable[..., Any], bodies: Sequence[bytes]) -> None:
        for body in itertools.cycle(bodies):
            if self._stop:
                return
            start = time.perf_counter()
            try:
                error = await self._ask_async(infer, body)
            except grpc.RpcError as raised:
                error = _text(raised)
            self._record(start, error)

    def _record(self, start: float, error: str) -> None:
        now = time.perf_counter()
        self._answers.append((now, now - start, error))


def percentiles_us(seconds: Sequence[float], *percents: int) -> list[float]:
    """Return percentiles in microseconds, or 0 if there are no values."""
    return [float(each) for each in np.percentile(seconds or [0.0], percents) * 1e6]


def _text(error: Any) -> str:
    return f"{error.code().name}: {error.details()}".splitlines()[0]
