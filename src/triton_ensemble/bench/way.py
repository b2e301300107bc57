"""The way of a request through an ensemble that takes longest: its other steps work meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from triton_ensemble.bench.figures import ModelTimes, total_us


def longest(
    configs: Mapping[str, Any], model: str, times: Mapping[str, ModelTimes]
) -> list[ModelTimes]:
    """The model itself; of an ensemble those of the steps that follow each other on it.

    `configs` are the ModelConfigs and `times` the figures of the models, by name.
    """
    steps = configs[model].ensemble_scheduling.step if model in configs else ()
    if not steps:
        return [times[model]] if model in times else []
    writers = {tensor: step for step in steps for tensor in step.output_map.values()}

    @lru_cache
    def to(tensor: str) -> list[ModelTimes]:
        if tensor not in writers:  # an input of the ensemble
            return []
        step = writers[tensor]
        before = max(map(to, step.input_map.values()), key=total_us, default=[])
        return [*before, *longest(configs, step.model_name, times)]

    return max(map(to, writers), key=total_us, default=[])
