"""Write down what a repository leaves out because Triton or git adds it, before the check sees the models."""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.adopt.ensembles import Models
from triton_ensemble.check.rules.versions import NO_VERSIONS
from triton_ensemble.config import Model


def complete(models: Models) -> dict[str, list[str]]:
    """Complete the models in place; return a line for each change, by the model's name."""
    for model in models.values():
        if not {*model.folders} - {*NO_VERSIONS}:
            model.assumed_versions = tuple(_iter_named_versions(model, models)) or (1,)
    return {
        name: [*_drop_twins(model), *_add_dims(model), *_read_versions(model)]
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
    """Drop outputs that are declared twice alike, which Triton does since 26.05 no more."""
    outputs = model.config.output
    for i in range(len(outputs) - 1, 0, -1):
        if outputs[i] in outputs[:i]:
            yield f"{model.name}: declares its output {outputs[i].name} twice, and now once"
            del outputs[i]


def _add_dims(model: Model) -> Iterator[str]:
    """Give tensors the dims that TensorRT adds to a config, and that none adds where a project is served."""
    for tensor in (
        (*model.config.input, *model.config.output) if model.backend == "tensorrt" else ()
    ):
        if not tensor.dims and not tensor.HasField("reshape"):
            tensor.dims.append(1)
            yield f"{model.name}: has {tensor.name} without dims, and now with those that Triton adds, [1]"
