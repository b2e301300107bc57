"""The sizes of what a stand-in answers: where its config leaves a dim open, those that readers of the tensor declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Configs = Mapping[str, Any]


def sizes(configs: Configs, model: str) -> dict[str, list[int]]:
    """Return the sizes of the outputs that have dims of -1, without the batch dimension; 1 where no config has one."""
    return {
        output.name: _closed(output.dims, _read(configs, model, output.name, set()))
        for output in configs[model].output
        if -1 in output.dims and not output.HasField("reshape")
    }


def _closed(dims: list[int], read: Iterator[list[int]]) -> list[int]:
    alike = [dims, *(other for other in read if len(other) == len(dims))]
    return [max(1, *sizes) if dim == -1 else dim for dim, *sizes in zip(dims, *alike, strict=True)]


def _read(
    configs: Configs, model: str, output: str, seen: set[tuple[str, str]]
) -> Iterator[list[int]]:
    """Yield dims of a model's output as the ensembles that call the model read it."""
    for name, config in configs.items():
        for step in config.ensemble_scheduling.step:
            tensor = step.output_map.get(output) if step.model_name == model else None
            if tensor and (name, tensor) not in seen:
                yield from _of_tensor(configs, name, tensor, seen | {(name, tensor)})


def _of_tensor(
    configs: Configs, ensemble: str, tensor: str, seen: set[tuple[str, str]]
) -> Iterator[list[int]]:
    """Yield dims of a tensor of an ensemble: of its outputs and of its steps, also in ensembles around it or inside."""
    for output in configs[ensemble].output:
        if output.name == tensor:
            yield output.dims
            yield from _read(configs, ensemble, tensor, seen)
    for step in configs[ensemble].ensemble_scheduling.step:
        for name in [name for name, read in step.input_map.items() if read == tensor]:
            config, place = configs.get(step.model_name), (step.model_name, name)
            yield from (spec.dims for spec in config.input if spec.name == name) if config else ()
            if config and place not in seen:
                yield from _of_tensor(configs, *place, seen | {place})
