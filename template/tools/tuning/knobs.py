# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The settings that `make tune` may change: where pipeline.yml has them, and what configs they make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Configs = Mapping[str, Any]  # ModelConfig by the model's name, as config.pbtxt has it
DELAYS_US = (0, 100, 1000, 5000)


@dataclass(frozen=True)
class Knob:
    """A setting: `path` is its place in pipeline.yml, `models` are those whose config it changes."""

    field: str
    models: tuple[str, ...]
    path: tuple[str | int, ...]
    present: Any
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return self.field if len(self.path) == 1 else f"{self.models[0]}.{self.field}"


Settings = Mapping[Knob, Any]  # what differs from the present ones


def describe(settings: Settings) -> str:
    words = [f"{knob}: {_word(value)}" for knob, value in settings.items()]
    return ", ".join(sorted(words)) or "as they are"


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def changed(settings: Settings, knob: Knob, value: Any) -> Settings:
    others = {k: v for k, v in settings.items() if k != knob}
    return others if value == knob.present else {**others, knob: value}


def knobs(pipeline: Mapping[str, Any], configs: Configs, cores: int) -> list[Knob]:
    """Those of a pipeline, by kind: the delay of all steps, then instances, batching and batch sizes.

    A setting that its config does not have as pipeline.yml says is left alone.
    """
    found = list(_of_all_steps(pipeline, configs))
    for kind in (_instances, _batching, _max_batch_size):
        for path, step in _steps(pipeline, ()):
            if step["name"] in configs and "sequence" not in step:
                found += kind(path, step, configs, cores)
    return found


def _steps(level: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The steps that have a model of their own, with those of ensembles inside."""
    for i, step in enumerate(level.get("steps", [])):
        here = (*path, "steps", i)
        if step.get("backend") == "ensemble":
            yield from _steps(step, here)
        elif "model" not in step:
            yield here, step


def _of_all_steps(pipeline: Mapping[str, Any], configs: Configs) -> Iterator[Knob]:
    """Models that several steps share have it too; their other settings are their steps' in common."""
    present = pipeline.get("max_queue_delay_us", 100)
    steps = {step["name"]: step for _, step in _steps(pipeline, ())}
    models = tuple(name for name in configs if _delay_is_general(steps.get(name, {})))
    if any(_delay_us(configs[name]) == present for name in models):
        values = tuple(sorted({present, *DELAYS_US}))
        yield Knob("max_queue_delay_us", models, ("max_queue_delay_us",), present, values)


def _delay_is_general(step: Any) -> bool:
    batching = step.get("batching")
    return "sequence" not in step and not (
        isinstance(batching, dict) and "max_queue_delay_us" in batching
    )


def _delay_us(config: Any) -> int | None:
    if not config.HasField("dynamic_batching"):
        return None
    return int(config.dynamic_batching.max_queue_delay_microseconds)


def _instances(path: Any, step: Any, configs: Configs, cores: int) -> Iterator[Knob]:
    groups = configs[step["name"]].instance_group
    present = step.get("instances", 1)
    if len(groups) == 1 and not isinstance(present, bool) and groups[0].count == present:
        on_cpu = groups[0].kind == groups[0].KIND_CPU
        counts = (1, 2, 4, 8, 16, 32, 64)
        values = {n for n in counts if n <= (max(cores, 2) if on_cpu else 4)}
        yield _knob("instances", path, step, present, values)


def _batching(path: Any, step: Any, configs: Configs, _: int) -> Iterator[Knob]:
    config = configs[step["name"]]
    present = step.get("batching", config.max_batch_size > 1)
    if (
        isinstance(present, bool)
        and config.max_batch_size > 1
        and present == config.HasField("dynamic_batching")
    ):
        yield _knob("batching", path, step, present, {True, False})


def _max_batch_size(path: Any, step: Any, configs: Configs, _: int) -> Iterator[Knob]:
    """No smaller than an ensemble passes on."""
    name = step["name"]
    least = max(c.max_batch_size for c in configs.values() if name in _members(c))
    present = configs[name].max_batch_size
    if least > 0 and present == step.get("max_batch_size", least):
        yield _knob("max_batch_size", path, step, present, {least, 2 * least, 4 * least})


def _members(config: Any) -> set[str]:
    return {step.model_name for step in config.ensemble_scheduling.step}


def _knob(field: str, path: Any, step: Any, present: Any, values: set[Any]) -> Knob:
    return Knob(field, (step["name"],), (*path, field), present, tuple(sorted({present, *values})))


def configured(name: str, config: Any, settings: Settings, own_parameters: bool) -> Any:
    """The config of a model with the settings; `own_parameters`: the step has some in pipeline.yml."""
    new = type(config)()
    new.CopyFrom(config)
    mine = {knob.field: value for knob, value in settings.items() if name in knob.models}
    if "batching" in mine:
        new.ClearField("dynamic_batching")
        if mine["batching"]:
            new.dynamic_batching.SetInParent()
    if "max_queue_delay_us" in mine and new.HasField("dynamic_batching"):
        new.dynamic_batching.max_queue_delay_microseconds = mine["max_queue_delay_us"]
    if "max_batch_size" in mine:
        new.max_batch_size = mine["max_batch_size"]
    if "instances" in mine:
        new.instance_group[0].count = mine["instances"]
        if not own_parameters:
            _share_threads(new)
    return new


def _share_threads(config: Any) -> None:
    """As the template does: instances of ONNX Runtime side by side on a CPU have a thread each."""
    [group] = config.instance_group
    config.parameters.pop("intra_op_thread_count", None)
    if config.backend == "onnxruntime" and group.kind == group.KIND_CPU and group.count > 1:
        config.parameters["intra_op_thread_count"].string_value = "1"
