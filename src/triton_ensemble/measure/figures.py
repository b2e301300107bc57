"""The figures of a load level: what its callers measured, and what the server did meanwhile."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Stream:
    """Responses of a decoupled pipeline: their number per second and percentiles of two times.

    One is the time to the first response to a request, the other the time between two responses.
    """

    per_s: float
    first_p50_us: float
    first_p99_us: float
    between_p50_us: float
    between_p99_us: float


@dataclass(frozen=True)
class Load:
    """The measurement of `concurrency` callers: answers per second, latency percentiles, errors by text.

    An answer of a decoupled pipeline is complete with its last response, and `stream` has the figures of its
    responses. `own_cores` are the CPU cores that the callers themselves kept busy. Python uses one at most.
    """

    concurrency: int
    throughput: float
    p50_us: float
    p95_us: float
    p99_us: float
    errors: dict[str, int] = field(default_factory=dict)
    own_cores: float = 0.0
    stream: Stream | None = None

    @property
    def failed(self) -> int:
        """The number of requests that failed."""
        return sum(self.errors.values())


@dataclass(frozen=True)
class ModelTimes:
    """The work of a model: means of a request, rows of a mean batch, and the share of time that an instance was busy.

    During `called_us` of the compute time it waited for models that it calls. If several steps share the model and
    the server's metrics can be read, `steps` are the steps' shares of its time. `quantiles_us` are the p50 and p99 of
    executions in the minute before, or empty if Triton does not keep them.
    """

    model: str
    requests: int
    batch: float
    queue_us: float
    compute_us: float
    instances: int
    busy: float
    cache_hits: int
    called_us: float = 0.0
    steps: dict[str, float] = field(default_factory=dict, hash=False)
    quantiles_us: list[float] = field(default_factory=list, hash=False)

    @property
    def own_us(self) -> float:
        """The compute time without the models that it calls."""
        return self.compute_us - self.called_us

    @property
    def own_work(self) -> float:
        """The instances that were busy, but not with waiting for other models."""
        return self.busy * self.instances * (self.own_us / max(self.compute_us, 1e-9))


@dataclass(frozen=True)
class Level:
    """A load level: the load, the times of the models, and the server's mean time for a request.

    `cores_busy` is the share of this machine's cores that any program used, or None if the server runs elsewhere.
    `critical_path` are the models that a request waits for one after the other.
    """

    load: Load
    models: list[ModelTimes]
    server_us: float
    cores_busy: float | None
    critical_path: list[ModelTimes] = field(default_factory=list)

    @staticmethod
    def restore(saved: Any) -> Level:
        """Return the level that `dataclasses.asdict` turned into `saved`, without fields of other versions."""
        models, path = (
            [_select_known(ModelTimes, times) for times in saved.get(name, [])]
            for name in ("models", "critical_path")
        )
        stream = saved["load"].get("stream")
        load = _select_known(
            Load, saved["load"] | {"stream": stream and _select_known(Stream, stream)}
        )
        return Level(load, models, saved["server_us"], saved["cores_busy"], path)


def _select_known(kind: Any, saved: dict[str, Any]) -> Any:
    names = {each.name for each in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in saved.items() if name in names})


def total_us(models: Iterable[ModelTimes]) -> float:
    """Return the time that a request spends in all of `models`."""
    return sum(model.queue_us + model.compute_us for model in models)


def best(levels: Sequence[Level]) -> Level:
    """Return the level of the highest throughput."""
    return max(levels, key=lambda level: level.load.throughput)
