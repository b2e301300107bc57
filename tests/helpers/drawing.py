"""Examples that Hypothesis draws, the same ones for a seed."""

from __future__ import annotations

import os
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

SEED = int(os.environ.get("SEED", 0))
T = TypeVar("T")


def drawn(strategy: st.SearchStrategy[T], count: int) -> list[T]:
    """Return examples by hypothesis, the same ones for a SEED, so that one server serves many of them."""
    examples: list[T] = []

    @seed(SEED)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example: T) -> None:
        examples.append(example)

    collect()
    return examples[:count]
