"""What is known of a level of load: what its callers saw, and what the server did meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Load:
    """What `concurrency` callers saw: answers a second, percentiles of the latency, errors by text.

    `own_cores` are the cores that the callers themselves kept busy; `in_python`: they can't use more
    than one.
    """

    concurrency: int
    throughput: float
    p50_us: float
    p95_us: float
    p99_us: float
    errors: dict[str, int] = field(default_factory=dict)
    own_cores: float = 0.0
    in_python: bool = True

    @property
    def failed(self) -> int:
        return sum(self.errors.values())


@dataclass(frozen=True)
class ModelTimes:
    """What a model did: means of a request, and the share of time that an instance was at work."""

    model: str
    requests: int
    batch: float
    queue_us: float
    compute_us: float
    instances: int
    busy: float
    cache_hits: int


@dataclass(frozen=True)
class Level:
    """A load, the models' part in it, the server's own time for a request, and this machine's CPU.

    `cores_busy` is the share of all cores that any program used; None if the server is elsewhere.
    `way` are those of the models that a request waits for one after the other.
    """

    load: Load
    models: list[ModelTimes]
    server_us: float
    cores_busy: float | None
    way: list[ModelTimes] = field(default_factory=list)

    @staticmethod
    def of(saved: Any) -> Level:
        """What `dataclasses.asdict` has made of a level."""
        models, way = (
            [ModelTimes(**model) for model in saved.get(name, [])] for name in ("models", "way")
        )
        return Level(Load(**saved["load"]), models, saved["server_us"], saved["cores_busy"], way)


def total_us(models: Iterable[ModelTimes]) -> float:
    return sum(model.queue_us + model.compute_us for model in models)


def best(levels: Sequence[Level]) -> Level:
    """The one of the highest throughput."""
    return max(levels, key=lambda level: level.load.throughput)
