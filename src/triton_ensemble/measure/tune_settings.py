"""The settings of pipeline.yml that `tune` may change, and the configs that they result in."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from triton_ensemble.compile.file import steps_of
from triton_ensemble.facts.config.message import ModelConfig, new_config

Configs = Mapping[str, ModelConfig]  # by model, as config.pbtxt has them
Path = tuple[str | int, ...]
Steps = Mapping[Path, Any]  # the steps of one model, by their paths in pipeline.yml
DELAYS_US = (0, 100, 1000, 5000)
INSTANCES = (1, 2, 4, 8, 16, 32, 64)
MAX_GPU_INSTANCES = 4


@dataclass(frozen=True)
class Setting:
    """A field of pipeline.yml at the paths `steps`, which changes the configs of `models`."""

    field: str
    models: tuple[str, ...]
    steps: tuple[Path, ...]
    present: Any
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return self.field if self.steps == ((),) else f"{self.models[0]}.{self.field}"

    def edits(self, value: Any) -> dict[Path, Any]:
        """Return what pipeline.yml has to say for a value."""
        edits = {(*step, self.field): value for step in self.steps}
        if self.field == "instances" and len(self.steps) > 1:
            # Steps with instances are not fused unless pipeline.yml says so.
            edits |= {(*step, "fuse"): True for step in self.steps}
        return edits


Settings = Mapping[Setting, Any]  # the values that differ from the present ones


def edits(settings: Settings) -> dict[Path, Any]:
    """Return what pipeline.yml has to say for all values."""
    return {
        path: new
        for setting, value in settings.items()
        for path, new in setting.edits(value).items()
    }


def describe(settings: Settings) -> str:
    """Return settings in words, sorted."""
    words = sorted(f"{setting}: {word(value)}" for setting, value in settings.items())
    return ", ".join(words) or "as they are"


def word(value: Any) -> str:
    """Return a value as pipeline.yml has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def change_setting(settings: Settings, setting: Setting, value: Any) -> Settings:
    """Return the settings with one value changed."""
    others = {other: kept for other, kept in settings.items() if other != setting}
    return others if value == setting.present else {**others, setting: value}


def tunable(
    pipeline: Mapping[str, Any], configs: Configs, fused: Mapping[str, Collection[str]], cores: int
) -> list[Setting]:
    """Return the settings of a pipeline: instances, batching, batch sizes, then the delay of all models.

    `fused` are the names of the steps of each model that serves several. A setting whose config
    says otherwise than pipeline.yml was edited by hand, and is left out.
    """
    served = _list_steps(pipeline, fused)
    settings = [
        setting
        for of_kind in (_instances, _batching, _max_batch_size)
        for model, steps in served.items()
        if model in configs and not any("sequence" in step for step in steps.values())
        for setting in of_kind(model, steps, configs, cores)
    ]
    return [*settings, *_delay(pipeline, served, configs)]


def _list_steps(pipeline: Any, fused: Mapping[str, Collection[str]]) -> dict[str, dict[Path, Any]]:
    """Return the steps of each model."""
    models = {step: model for model, steps in fused.items() for step in steps}
    served: dict[str, dict[Path, Any]] = {}
    for path, step in steps_of(pipeline):
        if step.get("backend") != "ensemble" and "model" not in step:
            served.setdefault(models.get(step["name"], step["name"]), {})[path] = step
    return served


def _instances(model: str, steps: Steps, configs: Configs, cores: int) -> Iterator[Setting]:
    groups = configs[model].instance_group
    present = next((step["instances"] for step in steps.values() if "instances" in step), 1)
    if len(groups) == 1 and not isinstance(present, bool) and groups[0].count == present:
        limit = max(cores, 2) if groups[0].kind == groups[0].KIND_CPU else MAX_GPU_INSTANCES
        yield _setting("instances", model, steps, present, {n for n in INSTANCES if n <= limit})


def _batching(model: str, steps: Steps, configs: Configs, _: int) -> Iterator[Setting]:
    config = configs[model]
    batches = config.max_batch_size > 1
    declared = [step.get("batching", batches) for step in steps.values()]
    as_served = all(each is config.HasField("dynamic_batching") for each in declared)
    if batches and as_served:
        yield _setting("batching", model, steps, declared[0], {True, False})


def _max_batch_size(model: str, steps: Steps, configs: Configs, _: int) -> Iterator[Setting]:
    """Yield the setting max_batch_size, at least the size of an ensemble around the model, or else the pipeline's."""
    present = configs[model].max_batch_size
    least = max((c.max_batch_size for c in configs.values() if model in _members(c)), default=0)
    declared = {step.get("max_batch_size", least) for step in steps.values()}
    if least > 0 and declared == {present}:
        yield _setting("max_batch_size", model, steps, present, {least, 2 * least, 4 * least})


def _members(config: ModelConfig) -> set[str]:
    return {step.model_name for step in config.ensemble_scheduling.step}


def _setting(field: str, model: str, steps: Steps, present: Any, values: set[Any]) -> Setting:
    return Setting(field, (model,), tuple(steps), present, tuple(sorted({present, *values})))


def _delay(pipeline: Any, served: Mapping[str, Steps], configs: Configs) -> Iterator[Setting]:
    """Yield the queue delay of all models whose steps do not have their own."""
    present = pipeline.get("max_queue_delay_us", 100)
    models = tuple(
        name for name in configs if not any(map(_own_delay, served.get(name, {}).values()))
    )
    delays = {
        configs[name].dynamic_batching.max_queue_delay_microseconds
        for name in models
        if configs[name].HasField("dynamic_batching")
    }
    if present in delays:
        values = tuple(sorted({present, *DELAYS_US}))
        yield Setting("max_queue_delay_us", models, ((),), present, values)


def _own_delay(step: Any) -> bool:
    batching = step.get("batching")
    return "sequence" in step or (isinstance(batching, dict) and "max_queue_delay_us" in batching)


def configure(
    name: str, config: ModelConfig, settings: Settings, own_parameters: bool
) -> ModelConfig:
    """Return the config of a model with the settings.

    `own_parameters` says whether its step has parameters in pipeline.yml.
    """
    new = new_config()
    new.CopyFrom(config)
    own = {setting.field: value for setting, value in settings.items() if name in setting.models}
    if "batching" in own:
        new.ClearField("dynamic_batching")
        if own["batching"]:
            new.dynamic_batching.SetInParent()
    if "max_queue_delay_us" in own and new.HasField("dynamic_batching"):
        new.dynamic_batching.max_queue_delay_microseconds = own["max_queue_delay_us"]
    if "max_batch_size" in own:
        new.max_batch_size = own["max_batch_size"]
    if "instances" in own:
        new.instance_group[0].count = own["instances"]
        if not own_parameters:
            _share_threads(new)
    return new


def _share_threads(config: ModelConfig) -> None:
    """Give each of several ONNX Runtime instances on a CPU one thread, as the template does."""
    [group] = config.instance_group
    config.parameters.pop("intra_op_thread_count", None)
    if config.backend == "onnxruntime" and group.kind == group.KIND_CPU and group.count > 1:
        config.parameters["intra_op_thread_count"].string_value = "1"
