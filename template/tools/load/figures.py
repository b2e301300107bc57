# Managed by triton-ensemble-template: edits are merged by `make update`.
"""What is known of a level of load: what its callers saw, and what the server did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
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
    """

    load: Load
    models: list[ModelTimes]
    server_us: float
    cores_busy: float | None

    @staticmethod
    def of(saved: Any) -> Level:
        """What `dataclasses.asdict` has made of a level."""
        models = [ModelTimes(**model) for model in saved["models"]]
        return Level(Load(**saved["load"]), models, saved["server_us"], saved["cores_busy"])


def best(levels: Sequence[Level]) -> Level:
    """The one of the highest throughput."""
    return max(levels, key=lambda level: level.load.throughput)
