"""The settings that `make tune` may change: where pipeline.yml has them, and what configs they make."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Configs = Mapping[str, Any]  # ModelConfig by the model's name, as config.pbtxt has it
Path = tuple[str | int, ...]
Places = Mapping[Path, Any]  # steps by their places in pipeline.yml
DELAYS_US = (0, 100, 1000, 5000)


@dataclass(frozen=True)
class Knob:
    """A setting: `steps` are the places in pipeline.yml that have it, `models` those whose config it changes."""

    field: str
    models: tuple[str, ...]
    steps: tuple[Path, ...]
    present: Any
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return self.field if self.steps == ((),) else f"{self.models[0]}.{self.field}"

    def changes(self, value: Any) -> dict[Path, Any]:
        """What pipeline.yml has to say for a value. Steps that share a model part if they have instances, unless told not to."""
        found = {(*step, self.field): value for step in self.steps}
        if self.field == "instances" and len(self.steps) > 1:
            found |= {(*step, "fuse"): True for step in self.steps}
        return found


Settings = Mapping[Knob, Any]  # what differs from the present ones


def changes(settings: Settings) -> dict[Path, Any]:
    """What pipeline.yml has to say."""
    return {
        place: new for knob, value in settings.items() for place, new in knob.changes(value).items()
    }


def describe(settings: Settings) -> str:
    words = [f"{knob}: {_word(value)}" for knob, value in settings.items()]
    return ", ".join(sorted(words)) or "as they are"


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def changed(settings: Settings, knob: Knob, value: Any) -> Settings:
    others = {k: v for k, v in settings.items() if k != knob}
    return others if value == knob.present else {**others, knob: value}


def knobs(
    pipeline: Mapping[str, Any], configs: Configs, shared: Mapping[str, Collection[str]], cores: int
) -> list[Knob]:
    """Those of a pipeline, by kind: instances, batching and batch sizes, then the delay of all models.

    `shared` are models that several steps share, with the names of those. A setting that its config does not have as
    pipeline.yml says is left alone.
    """
    served = _served(pipeline, shared)
    found: list[Knob] = []
    for kind in (_instances, _batching, _max_batch_size):
        for model, places in served.items():
            if model in configs and not any("sequence" in step for step in places.values()):
                found += kind(model, places, configs, cores)
    return [*found, *_delay(pipeline, served, configs)]


def _served(
    pipeline: Mapping[str, Any], shared: Mapping[str, Collection[str]]
) -> dict[str, dict[Path, Any]]:
    """The steps of each model."""
    models = {step: model for model, steps in shared.items() for step in steps}
    found: dict[str, dict[Path, Any]] = {}
    for path, step in _steps(pipeline, ()):
        found.setdefault(models.get(step["name"], step["name"]), {})[path] = step
    return found


def _steps(level: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """The steps that have a model, with those of ensembles inside."""
    for i, step in enumerate(level.get("steps", [])):
        here = (*path, "steps", i)
        if step.get("backend") == "ensemble":
            yield from _steps(step, here)
        elif "model" not in step:
            yield here, step


def _delay(pipeline: Any, served: Mapping[str, Places], configs: Configs) -> Iterator[Knob]:
    present = pipeline.get("max_queue_delay_us", 100)
    models = tuple(n for n in configs if all(map(_is_general, served.get(n, {}).values())))
    if any(_delay_us(configs[name]) == present for name in models):
        values = tuple(sorted({present, *DELAYS_US}))
        yield Knob("max_queue_delay_us", models, ((),), present, values)


def _is_general(step: Any) -> bool:
    """The delay of a step is that of all."""
    batching = step.get("batching")
    return "sequence" not in step and not (
        isinstance(batching, dict) and "max_queue_delay_us" in batching
    )


def _delay_us(config: Any) -> int | None:
    if not config.HasField("dynamic_batching"):
        return None
    return int(config.dynamic_batching.max_queue_delay_microseconds)


def _instances(model: str, places: Places, configs: Configs, cores: int) -> Iterator[Knob]:
    groups = configs[model].instance_group
    said = (step["instances"] for step in places.values() if "instances" in step)
    present = next(said, 1)
    if len(groups) == 1 and not isinstance(present, bool) and groups[0].count == present:
        on_cpu = groups[0].kind == groups[0].KIND_CPU
        counts = (1, 2, 4, 8, 16, 32, 64)
        values = {n for n in counts if n <= (max(cores, 2) if on_cpu else 4)}
        yield _knob("instances", model, places, present, values)


def _batching(model: str, places: Places, configs: Configs, _: int) -> Iterator[Knob]:
    config = configs[model]
    said = [step.get("batching", config.max_batch_size > 1) for step in places.values()]
    present = said[0]
    if (
        isinstance(present, bool)
        and all(each is present for each in said)
        and config.max_batch_size > 1
        and present == config.HasField("dynamic_batching")
    ):
        yield _knob("batching", model, places, present, {True, False})


def _max_batch_size(model: str, places: Places, configs: Configs, _: int) -> Iterator[Knob]:
    """No smaller than an ensemble passes on; without one it is the pipeline's."""
    present = configs[model].max_batch_size
    least = max((c.max_batch_size for c in configs.values() if model in _members(c)), default=0)
    said = {step.get("max_batch_size", least) for step in places.values()}
    if least > 0 and said == {present}:
        yield _knob("max_batch_size", model, places, present, {least, 2 * least, 4 * least})


def _members(config: Any) -> set[str]:
    return {step.model_name for step in config.ensemble_scheduling.step}


def _knob(field: str, model: str, places: Places, present: Any, values: set[Any]) -> Knob:
    return Knob(field, (model,), tuple(places), present, tuple(sorted({present, *values})))


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
