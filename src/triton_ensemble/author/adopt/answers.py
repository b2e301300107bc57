"""An ensemble and the models it uses -> the answers of the template: tensors, steps and what the ensemble itself says."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from triton_ensemble.author.adopt.ensembles import (
    AdoptedStep,
    Models,
    Use,
    all_outputs,
    only_called,
    steps_of,
)
from triton_ensemble.author.adopt.fields import (
    Defaults,
    Fields,
    find_backend,
    max_batch_size,
    read_ensemble,
    read_fields,
    tensor_spec,
)
from triton_ensemble.author.adopt.files import needs_folder
from triton_ensemble.author.adopt.refusal import Refused, config_of
from triton_ensemble.compile.rules import rules
from triton_ensemble.facts import catalog
from triton_ensemble.facts.config import Model, ModelConfig

ABSENT = {"optional": False, "ragged": False, "format": None}


@dataclass
class Adoption:
    """The part of an adoption that an ensemble shares with those inside it."""

    models: Models
    defaults: Defaults
    calls: Mapping[str, Sequence[str]]  # models that are only called, by the one that calls them
    defining: dict[str, str] = field(default_factory=dict)  # a model: the step that defines it
    names: set[str] = field(default_factory=set)  # of steps, which must differ

    def name(self, model: str) -> str:
        """Return a name for a step of the model. The first step gets the model's own name."""
        number, name = 1, model
        while name in self.names or (number > 1 and name in self.models):
            number += 1
            name = f"{model}-{number}"
        self.names.add(name)
        return name


def answers_of(ensemble: Model, models: Models, calls: Mapping[str, Sequence[str]]) -> Fields:
    """Return the answers from which the template generates equal configs.

    `models` are the ensemble's models. `calls` has, by caller, the models that are only called by others. Raise Refused
    for an unknown type.
    """
    configs = [model.config for name, model in models.items() if name != ensemble.name]
    batch = ensemble.config.max_batch_size
    defaults = Defaults(gpu_count(configs), batch, usual_delay(configs))
    answers: Fields = {"starting_pipeline": "my-own", "project_name": ensemble.name}
    if re.search("[^A-Za-z0-9_]", ensemble.name):  # the default has `_` there
        answers["ensemble_name"] = ensemble.name
    rows = map(catalog.backends().get, map(find_backend, configs))
    if last := [row.until for row in rows if row and row.until]:
        answers["triton_release"] = min(last)
    answers |= {n: v for n, v in asdict(defaults).items() if v != rules().questions.default(n)}
    adoption = Adoption(models, defaults, calls, names={ensemble.name})
    answers |= _pipeline(ensemble, adoption)
    answers |= _interface(ensemble, steps_of(ensemble, models), answers["tensors"])
    return answers | _own_settings(ensemble, defaults)


def gpu_count(configs: Collection[ModelConfig]) -> int:
    """Return the least number of GPUs that the models ask for."""
    counts, backends = [0], catalog.backends()
    for config in configs:
        backend = backends.get(find_backend(config))
        counts.append(int(backend is not None and backend.gpu))
        for group in config.instance_group:
            counts.append(int(group.kind == group.KIND_GPU))
            counts += [gpu + 1 for gpu in group.gpus]
    return max(counts)


def usual_delay(configs: Collection[ModelConfig]) -> int:
    """Return the queue delay, in microseconds, that most of the models that batch have."""
    delays = Counter(
        config.dynamic_batching.max_queue_delay_microseconds
        for config in configs
        if config.HasField("dynamic_batching")
    )
    return (
        delays.most_common(1)[0][0]
        if delays
        else int(rules().questions.default("max_queue_delay_us"))
    )


def _own_settings(ensemble: Model, defaults: Defaults) -> Fields:
    adopted = {"adopted": True} if needs_folder(ensemble) else {}
    settings = read_ensemble(ensemble.config, defaults) | all_outputs(ensemble) | adopted
    return {"ensemble": settings} if settings else {}


def _pipeline(ensemble: Model, adoption: Adoption) -> Fields:
    """Return `tensors` and `steps` of one ensemble."""
    steps = steps_of(ensemble, adoption.models)
    table = _tensors(ensemble, steps)
    fields, waiting = list[Fields](), deque(_step(step, table, adoption) for step in steps)
    while waiting:
        caller = waiting.popleft()
        called = adoption.calls.get(caller["name"], ())
        fields.append(caller | ({"calls": [*called]} if called else {}))
        waiting += [_step(only_called(adoption.models[name]), table, adoption) for name in called]
    return {"tensors": {name: _short(entry) for name, entry in table.items()}, "steps": fields}


def _tensors(ensemble: Model, steps: list[AdoptedStep]) -> dict[str, Fields]:
    """Return the table of tensors, as the ensemble declares them, or else the step that writes or a step that reads them."""
    inputs = {tensor.name: tensor_spec(tensor) for tensor in ensemble.config.input}
    outputs = {tensor.name: tensor_spec(tensor) for tensor in ensemble.config.output}
    uses = [use for step in steps for use in step.uses() if use.tensor is not None]
    written = {str(use.tensor): use.spec for use in uses if use.side == "outputs"}
    read: dict[str, list[Fields]] = {}
    for use in uses:
        if use.side == "inputs":
            read.setdefault(str(use.tensor), []).append(use.spec)
    inner = [str(use.tensor) for use in uses if use.tensor not in outputs]
    table: dict[str, Fields] = {}
    for name in dict.fromkeys((*inputs, *inner, *outputs)):
        specs = [inputs.get(name) or outputs.get(name), written.get(name), *read.get(name, [])]
        known = next((spec for spec in specs if spec), None)
        if known is None:
            what = f"ensemble tensor {name} has no known type, because no model that reads or writes it declares it"
            instead = "declare the models' inputs and outputs"
            raise Refused(config_of(ensemble.name), what, instead)
        table[name] = _entry(known, written.get(name, {}), read.get(name, []))
        if name in inputs and inputs[name].get("optional"):
            table[name]["optional"] = True
    return table


def _entry(known: Fields, writer: Fields, readers: list[Fields]) -> Fields:
    """Return a row of the table: what its readers agree on is said once."""
    shared = {
        key: readers[0][key]
        for key in ("format", "ragged")
        if readers and key in readers[0] and all(r.get(key) == readers[0][key] for r in readers)
    }
    labels = {"labels": writer["labels"]} if "labels" in writer else {}
    return {"type": known["type"], "dims": known["dims"], **shared, **labels}


def _short(entry: Fields) -> str | Fields:
    """Return `TYPE[dims]` if an entry has nothing else, or the entry."""
    if entry.keys() == {"type", "dims"} and entry["dims"]:
        return f"{entry['type']}[{', '.join(map(str, entry['dims']))}]"
    return entry


def _long(entry: str | Fields) -> Fields:
    """Return the inverse of `_short`, as far as `_override` looks."""
    if isinstance(entry, dict):
        return entry
    kind, _, dims = entry.rstrip("]").partition("[")
    return {"type": kind, "dims": [int(dim) for dim in dims.split(",")]}


def _override(side: str, of_use: Fields, of_tensor: Fields) -> Fields:
    """Return the fields of a use that differ from the table."""
    inherited = {key: of_tensor[key] for key in catalog.table("bindings")[side] if key in of_tensor}
    changed = {key: value for key, value in of_use.items() if inherited.get(key) != value}
    gone = {key: ABSENT[key] for key in inherited if key not in of_use and key in ABSENT}
    return changed | gone


def _uses(uses: list[Use], table: dict[str, Fields], defines: bool) -> list[str] | Fields:
    """Return the tensors of a side of a step: a list if each has the model's own name, or else a mapping.

    Only the step that defines a model says what the model declares.
    """
    fields: Fields = {}
    for use in uses:
        if use.tensor is None and defines:
            fields[use.name] = use.spec
        elif use.tensor is not None:
            changed = use.spec and defines and _override(use.side, use.spec, table[use.tensor])
            fields[use.name] = {"tensor": use.tensor, **changed} if changed else use.tensor
    return list(fields) if all(name == fields[name] for name in fields) else fields


def _step(step: AdoptedStep, table: dict[str, Fields], adoption: Adoption) -> Fields:
    model = step.message.model_name
    name = adoption.name(model)
    fields: Fields = {"name": name}
    defines = adoption.defining.setdefault(model, name) == name
    backend = find_backend(step.config)
    fields |= {"backend": backend} if defines else {"model": adoption.defining[model]}
    for side in ("inputs", "outputs"):
        fields[side] = _uses([use for use in step.uses() if use.side == side], table, defines)
    if step.message.model_version != -1:
        fields["version"] = step.message.model_version
    if not defines:
        return fields
    if adoption.models[model].is_ensemble:
        return fields | _inner(adoption.models[model], adoption)
    return fields | {"adopted": True} | read_fields(step.config, adoption.defaults)


def _inner(ensemble: Model, adoption: Adoption) -> Fields:
    batch = ensemble.config.max_batch_size
    inside = replace(adoption, defaults=replace(adoption.defaults, max_batch_size=batch))
    fields = max_batch_size(ensemble.config, adoption.defaults)
    fields |= _own_settings(ensemble, adoption.defaults)
    return fields | _pipeline(ensemble, inside)


def _interface(ensemble: Model, steps: list[AdoptedStep], table: dict[str, Any]) -> Fields:
    """Return `inputs` and `outputs` if they differ from what no step writes and what no step reads."""
    written = {tensor for step in steps for tensor in step.message.output_map.values()}
    read = {tensor for step in steps for tensor in step.message.input_map.values()}
    fields: Fields = {}
    for side, declared, default in (
        ("inputs", ensemble.config.input, read - written),
        ("outputs", ensemble.config.output, written - read),
    ):
        changed = {
            tensor.name: _override(
                f"ensemble {side}", tensor_spec(tensor), _long(table[tensor.name])
            )
            for tensor in declared
        }
        if any(changed.values()):
            fields[side] = changed
        elif changed.keys() != default:
            fields[side] = list(changed)
    return fields
