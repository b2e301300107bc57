"""The ensembles of a repository: which one to adopt, its steps in their order, and the models that they use."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from triton_ensemble.author.adopt.fields import Fields, tensor_spec
from triton_ensemble.author.adopt.refusal import Refused, config_of
from triton_ensemble.facts.config import (
    Field,
    Model,
    ModelConfig,
    did_you_mean,
)
from triton_ensemble.facts.config.message import new_config

Models = dict[str, Model]


@dataclass(frozen=True)
class Use:
    """A tensor of a step's model: its side, its name there, the ensemble's tensor if it is mapped, what is declared."""

    side: str  # `inputs` or `outputs`
    name: str
    tensor: str | None
    spec: Fields


@dataclass(frozen=True)
class AdoptedStep:
    """One step of an ensemble, with the config of its model."""

    message: Any
    config: ModelConfig

    def uses(self) -> Iterator[Use]:
        """Iterate over the tensors that the model declares, or if it declares none, over the mapped tensors."""
        for side, declared, mapped in (
            ("inputs", self.config.input, self.message.input_map),
            ("outputs", self.config.output, self.message.output_map),
        ):
            for tensor in declared:
                yield Use(side, tensor.name, mapped.get(tensor.name), tensor_spec(tensor))
            if not declared:
                for name in sorted(mapped):
                    yield Use(side, name, mapped[name], {})


def choose_model(
    models: Models,
    repository: Path,
    wanted: str,
    calls: Mapping[str, Collection[str]],
    computing: Collection[str],
) -> Model:
    """Return the wanted model, or the only model that others do not use. Raise Refused without one.

    It is an ensemble, or a Python model that calls others by BLS: `calls` has what each model calls, and those that are
    `computing` call any. If there is neither, it is any model.
    """
    wiring = [name for name, model in models.items() if model.is_ensemble or calls[name]]
    choices = [name for name in models if name in {*wiring, *computing}] or [*models]
    used = {step.model_name for model in models.values() for step in model.steps}
    used = used.union(*calls.values())
    ensembles = [name for name in wiring if models[name].is_ensemble]
    outermost = [name for name in wiring if name not in used] or ensembles or wiring or choices
    if wanted and wanted not in choices:
        remedy = did_you_mean(wanted, choices, f"there are {', '.join(choices) or 'none'}")
        raise Refused(str(repository), f"has no ensemble {wanted}", remedy)
    if not wanted and len(outermost) != 1:
        several = "several pipelines" if wiring or computing else "no ensemble, but several models"
        what = f"has {several}: {', '.join(outermost)}" if outermost else "has no model"
        instead = "name one with --ensemble" if outermost else "name a model repository"
        raise Refused(str(repository), what, instead)
    return models[wanted or outermost[0]]


def ensemble_of(model: Model, models: Models) -> Model:
    """Return an ensemble of one model, with its inputs and outputs. Raise Refused if it declares none."""
    if not declares_all(model):
        what = "is in no ensemble, and declares no inputs or no outputs"
        raise Refused(config_of(model.name), what, "declare them")
    name = f"{model.name}_pipeline"
    while name in models:
        name += "_"
    config = new_config()
    config.platform, config.max_batch_size = "ensemble", model.config.max_batch_size
    step = config.ensemble_scheduling.step.add(model_name=model.name, model_version=-1)
    for declared, own, mapped in (
        (model.config.input, config.input, step.input_map),
        (model.config.output, config.output, step.output_map),
    ):
        for tensor in declared:
            mapped[tensor.name] = tensor.name
            own.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    for tensor, given in zip(config.input, model.config.input, strict=True):
        tensor.optional = given.optional
    made = Model(model.folder.with_name(name), config, Field("", 1), False, assumed_versions=(1,))
    made.folders = []  # it has none
    return made


def models_below(ensemble: Model, models: Models) -> Models:
    """Return the existing models of an ensemble's steps, and of the ensembles among them."""
    below: Models = {}
    waiting = [ensemble]
    while waiting:
        for step in waiting.pop(0).steps:
            if step.model_name in models and step.model_name not in below:
                below[step.model_name] = models[step.model_name]
                waiting.append(models[step.model_name])
    return below


def steps_of(ensemble: Model, models: Models) -> list[AdoptedStep]:
    """Return the steps in their order."""
    return [AdoptedStep(step, models[step.model_name].config) for step in sort_steps(ensemble)]


def declares_all(model: Model) -> bool:
    """Return whether a config has inputs and outputs."""
    return bool(model.config.input and model.config.output)


def only_called(model: Model) -> AdoptedStep:
    """Return a step for a model that no ensemble maps tensors of. Raise Refused if it declares none."""
    if not declares_all(model):
        what = "is only called by other models, and declares no inputs or no outputs"
        raise Refused(config_of(model.name), what, "declare them")
    step = new_config().ensemble_scheduling.step.add(model_name=model.name, model_version=-1)
    return AdoptedStep(step, model.config)


def sort_steps(ensemble: Model) -> list[Any]:
    """Return the steps, each after those it reads from and else as the config lists them."""
    steps = ensemble.steps
    writers = {tensor: i for i, step in enumerate(steps) for tensor in step.output_map.values()}
    sorter = TopologicalSorter(
        {
            i: {writers[tensor] for tensor in step.input_map.values() if tensor in writers}
            for i, step in enumerate(steps)
        }
    )
    try:
        sorter.prepare()
    except CycleError:  # which the template refuses
        return steps
    order: list[int] = []
    ready: list[int] = []
    while sorter.is_active():
        for i in sorter.get_ready():
            heapq.heappush(ready, i)
        order.append(heapq.heappop(ready))
        sorter.done(order[-1])
    return [steps[i] for i in order]


def all_outputs(ensemble: Model) -> Fields:
    """Return `all_outputs` if Triton answers only requests that ask for all of them.

    That is so for an output that a step reads too, and for outputs of different inputs that no step joins.
    """
    read = {tensor for step in ensemble.steps for tensor in step.input_map.values()}
    exposed = any(tensor.name in read for tensor in ensemble.config.output)
    return {"all_outputs": True} if exposed or _has_unjoined(ensemble) else {}


def _has_unjoined(ensemble: Model) -> bool:
    """Return whether an output depends on only some of the inputs, and no step depends on all."""
    inputs = {tensor.name for tensor in ensemble.config.input}
    needs = {name: {name} for name in inputs}
    joined = False
    for step in sort_steps(ensemble):
        of_step = set().union(*(needs.get(tensor, set()) for tensor in step.input_map.values()))
        needs |= dict.fromkeys(step.output_map.values(), of_step)
        joined |= of_step == inputs
    return not joined and any(needs.get(output.name) != inputs for output in ensemble.config.output)
