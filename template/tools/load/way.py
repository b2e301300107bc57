# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The way of a request through an ensemble that takes longest: its other steps work meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tools.load.figures import ModelTimes, total_us


def longest(
    configs: Mapping[str, Any], ensemble: str, times: Mapping[str, ModelTimes]
) -> list[ModelTimes]:
    """The models of the steps that follow each other on it, with those of ensembles inside.

    `configs` are the ModelConfigs and `times` the figures of the models, by name.
    """
    steps = configs[ensemble].ensemble_scheduling.step
    writers = {tensor: step for step in steps for tensor in step.output_map.values()}

    @lru_cache
    def to(tensor: str) -> list[ModelTimes]:
        if tensor not in writers:  # an input of the ensemble
            return []
        step = writers[tensor]
        before = max(map(to, step.input_map.values()), key=total_us, default=[])
        return [*before, *_inside(configs, step.model_name, times)]

    return max(map(to, writers), key=total_us, default=[])


def _inside(
    configs: Mapping[str, Any], model: str, times: Mapping[str, ModelTimes]
) -> list[ModelTimes]:
    if model in configs and configs[model].platform == "ensemble":
        return longest(configs, model, times)
    return [times[model]] if model in times else []
