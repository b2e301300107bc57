"""Load levels, measured one after the other: by the callers, and by Triton's statistics."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from triton_ensemble.measure.closed_loop import ClosedLoop
from triton_ensemble.measure.critical_path import critical_path
from triton_ensemble.measure.figures import Level, Load
from triton_ensemble.measure.requests import Row, body
from triton_ensemble.measure.server import ServerUnderLoad
from triton_ensemble.measure.statistics import (
    counters,
    model_times,
    read_quantiles,
    request_us,
    step_seconds,
    step_shares,
    subtract_counters,
)
from triton_ensemble.measure.streamed_loop import StreamedLoop

WARM_UP_S = 0.5


class Bench:
    """Measures load levels on a server with `requests` in rotation. Raises ValueError if that is impossible."""

    def __init__(self, server: ServerUnderLoad, requests: Sequence[Row]) -> None:
        if not requests:
            raise ValueError("samples/ does not have a row to send")
        self.server, self._requests = server, requests

    def level(self, concurrency: int, seconds: float) -> Level:
        """Measure `concurrency` callers for `seconds`, after a warm-up."""
        with self._start_callers(concurrency) as callers:
            callers.measure(WARM_UP_S)
            steps = step_seconds(self.server.metrics())
            before, cpu, start = counters(self.server), read_cpu_times(), time.perf_counter()
            load = callers.measure(seconds)
            wall, done = (
                time.perf_counter() - start,
                subtract_counters(before, counters(self.server)),
            )
        busy, total = (now - then for now, then in zip(read_cpu_times(), cpu, strict=True))
        configs, ensemble = self.server.configs, self.server.project.ensemble
        metrics = self.server.metrics()
        shares, tails = step_shares(steps, step_seconds(metrics)), read_quantiles(metrics)
        times = [
            replace(each, steps=shares.get(each.model, {}), quantiles_us=tails.get(each.model, []))
            for each in model_times(done, wall, configs, ensemble, self.server.calls)
        ]
        return Level(
            load,
            times,
            request_us(done, ensemble),
            busy / max(total, 1) if self.server.local else None,
            critical_path(configs, ensemble, {each.model: each for each in times}),
        )

    def measure_callers(
        self, concurrency: int, seconds: float, warm_up_s: float
    ) -> tuple[Load, list[float]]:
        """Return the load alone, without the work of the models, and the seconds that each answer took."""
        with self._start_callers(concurrency) as callers:
            callers.measure(warm_up_s)
            return callers.measure(seconds), callers.latencies_s

    def _start_callers(self, concurrency: int) -> ClosedLoop:
        loop = StreamedLoop if self.server.project.decoupled else ClosedLoop
        return loop(self.server.address, self._bodies(concurrency))

    def _bodies(self, concurrency: int) -> list[list[bytes]]:
        """Return the requests of each caller.

        Each caller starts with another request, and has a number for its sequences.
        """
        project, requests = self.server.project, self._requests
        firsts = [i for i, row in enumerate(requests) if row.start]
        starts = (firsts[i % len(firsts)] for i in range(concurrency))
        rotations = [[*requests[start:], *requests[:start]] for start in starts]
        return [
            [body(project, row, caller * project.sequential) for row in rotation]
            for caller, rotation in enumerate(rotations, 1)
        ]


def cores() -> int:
    """Return how many CPU cores this program may use."""
    return len(os.sched_getaffinity(0))


def read_cpu_times() -> tuple[float, float]:
    """Return the busy and the whole CPU time of this machine since it started, in one unit."""
    numbers = Path("/proc/stat").read_text().split()[1:9]
    user, nice, system, idle, iowait, *others = map(int, numbers)
    busy = user + nice + system + sum(others)
    return busy, busy + idle + iowait
