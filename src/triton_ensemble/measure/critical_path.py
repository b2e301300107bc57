"""The critical path of a request through an ensemble: other steps work in parallel with it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from triton_ensemble.facts.config.message import ModelConfig
from triton_ensemble.measure.figures import ModelTimes, total_us


def critical_path(
    configs: Mapping[str, ModelConfig], model: str, times: Mapping[str, ModelTimes]
) -> list[ModelTimes]:
    """Return the times of the models that take longest one after the other, or of the model itself if it is not an ensemble.

    `configs` are the ModelConfigs, and `times` the figures, by the names of the models.
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
        return [*before, *critical_path(configs, step.model_name, times)]

    return max(map(to, writers), key=total_us, default=[])
