"""Write down what a repository leaves out because Triton or git adds it, before the check sees the models."""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.author.adopt.ensembles import Models, declares_all
from triton_ensemble.check.rules.versions import NO_VERSIONS
from triton_ensemble.facts import catalog
from triton_ensemble.facts.config import Model
from triton_ensemble.facts.config.syntax import parse


def complete(models: Models) -> dict[str, list[str]]:
    """Complete the models in place, and return a line for each change, by the model's name."""
    for model in models.values():
        if not {*model.folders} - {*NO_VERSIONS}:
            model.assumed_versions = tuple(_iter_named_versions(model, models)) or (1,)
    mapped: dict[str, set[str]] = {name: set() for name in models}
    for step in (step for model in models.values() for step in model.steps):
        mapped.setdefault(step.model_name, set()).update(step.input_map, step.output_map)
    return {
        name: [
            *_drop_twins(model),
            *_add_dims(model),
            *_add_tensors(model, mapped[name]),
            *_read_versions(model),
        ]
        for name, model in models.items()
    }


def _iter_named_versions(model: Model, models: Models) -> Iterator[int]:
    """Iterate over the versions that a model's policy or a step of an ensemble names."""
    yield from model.config.version_policy.specific.versions
    for ensemble in models.values():
        for step in ensemble.steps:
            if step.model_name == model.name and step.model_version > 0:
                yield step.model_version


def _read_versions(model: Model) -> Iterator[str]:
    if model.assumed_versions:
        versions = ", ".join(map(str, model.loaded))
        what = "has no version folder, because git drops empty folders"
        yield f"{model.name}: {what}; it counts as version {versions}"


def _drop_twins(model: Model) -> Iterator[str]:
    """Drop outputs that are declared twice alike, as Triton did before 26.05."""
    outputs = model.config.output
    for i in range(len(outputs) - 1, 0, -1):
        if outputs[i] in outputs[:i]:
            yield f"{model.name}: declares its output {outputs[i].name} twice, and now once"
            del outputs[i]


def _add_dims(model: Model) -> Iterator[str]:
    """Give tensors the dims that TensorRT adds to a config.

    Nothing adds them in the servers of a project.
    """
    for tensor in (
        (*model.config.input, *model.config.output) if model.backend == "tensorrt" else ()
    ):
        if not tensor.dims and not tensor.HasField("reshape"):
            tensor.dims.append(1)
            yield f"{model.name}: has {tensor.name} without dims, and now with those that Triton adds, [1]"


def _add_tensors(model: Model, mapped: set[str]) -> Iterator[str]:
    """Add what the backend adds to a config that lacks tensors, or lacks one that is `mapped` by a step."""
    declared = {tensor.name for tensor in (*model.config.input, *model.config.output)}
    text = catalog.table("completed").get(model.backend, "")
    if text and not (declares_all(model) and mapped <= declared):
        whole = parse(text)
        for side in ("input", "output"):
            lacking = [each for each in getattr(whole, side) if each.name not in declared]
            getattr(model.config, side).extend(lacking)
        model.config.model_transaction_policy.MergeFrom(whole.model_transaction_policy)
        yield f"{model.name}: lacks tensors, and now has those that the backend {model.backend} adds"
