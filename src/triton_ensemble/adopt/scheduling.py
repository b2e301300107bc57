"""An ensemble's steps against the models that they name, in Triton's words (core: ensemble_utils.cc, model_config_utils.cc).

Only what the translation into pipeline.yml would hide: everything else is found by the template's own checks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from triton_ensemble.adopt.refusal import Refused, config_of
from triton_ensemble.adopt.repository import Config, Models, backend_of, loaded
from triton_ensemble.pipeline.rules import nearest

FORBIDDEN = ("instance_group", "optimization", "model_warmup")


def is_ensemble(config: Config) -> bool:
    return bool(config.platform == "ensemble" or config.HasField("ensemble_scheduling"))


def steps(config: Config) -> list[Any]:
    return list(config.ensemble_scheduling.step)


def chosen(models: Models, repository: Path, wanted: str) -> str:
    """The ensemble to adopt: the one wanted, else the only one that no other uses."""
    ensembles = [name for name, config in models.items() if is_ensemble(config)]
    used = {step.model_name for name in ensembles for step in steps(models[name])}
    outermost = [name for name in ensembles if name not in used] or ensembles
    if wanted and wanted not in ensembles:
        remedy = nearest(wanted, ensembles, f"there are {', '.join(ensembles) or 'none'}")
        raise Refused(str(repository), f"has no ensemble {wanted}", remedy)
    if not wanted and len(outermost) != 1:
        what = f"has several ensembles: {', '.join(outermost)}" if outermost else "has no ensemble"
        instead = "name one with --ensemble" if outermost else "it takes a model that wires others"
        raise Refused(str(repository), what, instead)
    return wanted or outermost[0]


def check(name: str, models: Models, repository: Path, above: tuple[str, ...] = ()) -> None:
    """Refuses an ensemble, and those inside it, for what Triton refuses and pipeline.yml can't say."""
    where, config = config_of(name), models[name]
    if name in above:
        circle = " -> ".join((*above[above.index(name) :], name))
        raise Refused(where, f"circular dependency between ensembles: {circle}", "break the circle")
    check_alone(name, config)
    for index, step in enumerate(steps(config)):
        for field in ("model_name", "input_map", "output_map"):
            if not getattr(step, field):
                what = f"must specify '{field}' in step {index} of ensemble '{name}'"
                raise Refused(where, what, f"add it to step {index} (the first is step 0)")
        check_model(name, step, models, repository)
        check_maps(name, step, models[step.model_name], repository / step.model_name)
        if is_ensemble(models[step.model_name]):
            check(step.model_name, models, repository, (*above, name))


def check_alone(name: str, config: Config) -> None:
    where = config_of(name)
    if config.platform != "ensemble":
        what = (
            f"ensemble scheduling cannot be set for model '{name}' whose platform is not ensemble"
        )
        raise Refused(where, what, 'write platform: "ensemble"')
    if not config.ensemble_scheduling.step:
        raise Refused(where, f"must specify 'step' for ensemble '{name}'", "add its steps")
    for side in ("input", "output"):
        if not getattr(config, side):
            what = f"ensemble '{name}' declares no {side}, and Triton finds none itself"
            raise Refused(where, what, f"add each {side} with its data_type and dims")
    for field in FORBIDDEN:
        if config.HasField(field) if field == "optimization" else getattr(config, field):
            what = f"{field} should not be specified for ensemble '{name}'"
            raise Refused(where, what, "move it to the models of its steps")


def check_model(name: str, step: Any, models: Models, repository: Path) -> None:
    model, version = step.model_name, step.model_version
    if model not in models:
        what = f"ensemble {name} contains models that are not available or ambiguous: {model}"
        raise Refused(
            config_of(name), what, nearest(model, models.keys() - {name}, f"add the folder {model}")
        )
    if version != -1 and version not in loaded(models[model], repository / model):
        what = (
            f"ensemble '{name}' depends on '{model}' whose required version {version} is not loaded"
        )
        raise Refused(config_of(name), what, "write model_version: -1 for the latest")
    if step.model_namespace:
        what = f"the step of {model} has a model_namespace, which is reserved"
        raise Refused(config_of(name), what, "take it out")


def check_maps(name: str, step: Any, model: Config, folder: Path) -> None:
    """Keys that the model does not have, and inputs that it needs."""
    into, out_of = dict(step.input_map), dict(step.output_map)
    for way, side, mapped, declared in (
        ("mapping to non-existing", "input", into, [tensor.name for tensor in model.input]),
        ("mapped from non-existing", "output", out_of, [tensor.name for tensor in model.output]),
    ):
        known = declared or not completes(model, folder)
        for key in sorted(mapped.keys() - declared if known else ()):
            listed = (
                f"its {side}s are {', '.join(declared)}" if declared else f"declare its {side}s"
            )
            raise Refused(
                config_of(name),
                f"in ensemble {name}, ensemble tensor {mapped[key]} is {way} {side} {key} in model {step.model_name}",
                nearest(key, declared, listed),
            )
    for tensor in model.input:
        if tensor.name not in into and not tensor.optional:
            raise Refused(
                config_of(name),
                f"in ensemble {name}, input {tensor.name} in model {step.model_name} is not mapped to any ensemble tensors",
                "add it to the step's input_map",
            )


def completes(model: Config, folder: Path) -> bool:
    """Whether the backend may find tensors that the config leaves out; of a Python model its code says so."""
    if backend_of(model) != "python":
        return backend_of(model) != "pytorch"
    codes = [path.read_text(errors="replace") for path in folder.glob("[0-9]*/model.py")]
    return not codes or any("auto_complete_config" in code for code in codes)
