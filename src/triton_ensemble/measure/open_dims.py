"""Finds models that Triton hardly batches for, because their requests have different shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from triton_ensemble.facts.config.message import ModelConfig
from triton_ensemble.measure.figures import best
from triton_ensemble.measure.runs import Run

MANY_CALLERS = 4  # fewer give a batcher little to join
FEW = 2.0  # requests a batch
WAITS = 0.3  # of the time busy: requests come meanwhile, which could be joined


def apart(run: Run, configs: Mapping[str, ModelConfig]) -> Iterator[str]:
    """Yield a line for each model that Triton hardly batches for.

    The level of the highest throughput counts.
    """
    level = best(run.levels)
    for model in level.models:
        names = open_inputs(configs[model.model])
        together = model.batch / run.rows
        crowded = level.load.concurrency >= MANY_CALLERS and model.busy >= WAITS
        if names and crowded and together < FEW:
            yield (
                f"{model.model} has {together:.1f} requests a batch, of {level.load.concurrency} callers: dims of "
                f"{', '.join(names)} vary, and Triton joins requests of equal shapes only. Pad them to one "
                "size, or few, in the step before: `pad_to_bucket` of triton_step."
            )


def open_inputs(config: ModelConfig) -> list[str]:
    """Return the inputs whose dims vary, if these keep requests from a batch."""
    if not config.HasField("dynamic_batching"):
        return []
    inputs = (tensor for tensor in config.input if not tensor.allow_ragged_batch)
    return [tensor.name for tensor in inputs if -1 in tensor.dims]
