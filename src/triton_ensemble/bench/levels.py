"""Levels of load, one after the other: what the callers saw, and what the server says of its models."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

from triton_ensemble.bench import perf_analyzer, way
from triton_ensemble.bench.closed_loop import ClosedLoop
from triton_ensemble.bench.figures import Level, Load
from triton_ensemble.bench.requests import Inputs, body
from triton_ensemble.bench.server import Counters, ServerUnderLoad, cpu_times, model_times
from triton_ensemble.project import ENSEMBLE

WARM_UP_S = 0.5
DECOUPLED = "Decoupled models answer over a gRPC stream only: `make bench` and `make tune` can't measure them."


class Bench:
    """Measures levels of load on a server: `requests` in rotation, each level for `seconds`.

    ValueError if that can't be done.
    """

    def __init__(
        self, server: ServerUnderLoad, requests: Sequence[Inputs], *, seconds: float, rows: int = 1
    ) -> None:
        if server.decoupled:
            raise ValueError(DECOUPLED)
        if not requests:
            raise ValueError("samples/ has no row that could be sent")
        self.server, self.requests, self.seconds, self.rows = server, requests, seconds, rows
        self.perf_analyzer = perf_analyzer.installed() is not None

    def level(self, concurrency: int) -> Level:
        measure = self._by_perf_analyzer if self.perf_analyzer else self.by_callers
        return measure(concurrency)

    def by_callers(self, concurrency: int) -> Level:
        """The load of this program's own callers, of whom each starts with another request."""
        sequential = self.server.has("sequence_batching")
        bodies = [
            [body(inputs, (i + 1) * sequential) for inputs in _rotated(self.requests, i)]
            for i in range(concurrency)
        ]
        with ClosedLoop(self.server.address, bodies) as callers:
            callers.measure(WARM_UP_S)
            return self._watched(lambda: callers.measure(self.seconds))

    def _by_perf_analyzer(self, concurrency: int) -> Level:
        alone = [{name: array[:1] for name, array in row.items()} for row in self.requests]
        requests = alone if self.rows > 1 else self.requests
        return self._watched(
            lambda: perf_analyzer.measure(
                self.server.address, requests, self.rows, concurrency, self.seconds
            )
        )

    def _watched(self, measure: Callable[[], Load]) -> Level:
        before, cpu, wall = self.server.counters(), cpu_times(), time.perf_counter()
        load = measure()
        wall, after = time.perf_counter() - wall, self.server.counters()
        busy, total = (now - then for now, then in zip(cpu_times(), cpu, strict=True))
        models = model_times(before, after, wall, self.server.configs)
        return Level(
            load,
            models,
            _request_us(before, after),
            busy / max(total, 1) if self.server.local else None,
            way.longest(self.server.configs, ENSEMBLE, {model.model: model for model in models}),
        )


def _rotated(requests: Sequence[Inputs], by: int) -> list[Inputs]:
    start = by % len(requests)
    return [*requests[start:], *requests[:start]]


def _request_us(before: Counters, after: Counters) -> float:
    """The server's mean time for a request of the ensemble."""
    done = Counter(after.get(ENSEMBLE, {}))
    done.subtract(before.get(ENSEMBLE, {}))
    return done["request_ns"] / max(done["requests"], 1) / 1000
