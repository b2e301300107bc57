"""The sizes of a stand-in's answers: if its config leaves a dim open, the size that readers of the tensor declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Configs = Mapping[str, Any]

ROWS = 0  # stands for the batch dimension among dims


def sizes(configs: Configs, model: str) -> dict[str, list[int]]:
    """Return the sizes of the outputs that have dims of -1, without the batch dimension.

    A size is less than 1 if no config has one.
    """
    config = configs[model]
    batches = config.max_batch_size > 0
    return {
        output.name: _close_dims(_full(config, output), _read(configs, model, output.name, set()))[
            batches:
        ]
        for output in config.output
        if -1 in output.dims and not output.HasField("reshape")
    }


def _full(config: Any, tensor: Any) -> list[int]:
    return [ROWS] * (config.max_batch_size > 0) + list(tensor.dims)


def _close_dims(dims: list[int], read: Iterator[list[int]]) -> list[int]:
    """Replace open dims by the readers' dims. For a single row, Triton adds the batch dimension or removes it."""
    forms = [form for full in read for form in (full, full[1:] if ROWS in full else [ROWS, *full])]
    alike = [form for form in forms if len(form) == len(dims)]
    return [
        max(sizes) if dim == -1 else dim for dim, *sizes in zip(dims, dims, *alike, strict=True)
    ]


def _read(
    configs: Configs, model: str, output: str, seen: set[tuple[str, str]]
) -> Iterator[list[int]]:
    """Yield dims of a model's output as the ensembles that call the model read it."""
    for name, config in configs.items():
        for step in config.ensemble_scheduling.step:
            tensor = step.output_map.get(output) if step.model_name == model else None
            if tensor and (name, tensor) not in seen:
                yield from _iter_tensor_dims(configs, name, tensor, seen | {(name, tensor)})


def _iter_tensor_dims(
    configs: Configs, ensemble: str, tensor: str, seen: set[tuple[str, str]]
) -> Iterator[list[int]]:
    """Yield dims of a tensor of an ensemble: of its outputs and of its steps, also in ensembles around it or inside."""
    for output in configs[ensemble].output:
        if output.name == tensor:
            yield _full(configs[ensemble], output)
            yield from _read(configs, ensemble, tensor, seen)
    for step in configs[ensemble].ensemble_scheduling.step:
        for name in [name for name, read in step.input_map.items() if read == tensor]:
            config, place = configs.get(step.model_name), (step.model_name, name)
            if config is None:
                continue
            yield from (_full(config, spec) for spec in config.input if spec.name == name)
            if place not in seen:
                yield from _iter_tensor_dims(configs, *place, seen | {place})
