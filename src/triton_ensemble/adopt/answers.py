"""An ensemble and the models it uses -> the answers of the template: tensors, steps and what the ensemble itself says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from triton_ensemble.adopt.fields import (
    GPU_ONLY,
    Defaults,
    Fields,
    max_batch_size,
    of_ensemble,
    of_model,
    spec,
)
from triton_ensemble.adopt.refusal import Refused, config_of
from triton_ensemble.adopt.repository import Config, Models, backend_of
from triton_ensemble.adopt.scheduling import is_ensemble, steps
from triton_ensemble.adopt.wiring import Wired, all_outputs, wired

LAST_WITH_TENSORFLOW = "25.02"


@dataclass
class Adoption:
    """What is the same for an ensemble and those inside it."""

    models: Models
    defaults: Defaults
    defined: dict[str, str] = field(default_factory=dict)  # a model: the step that defines it
    names: set[str] = field(default_factory=set)  # of steps, which must differ

    def name(self, model: str) -> str:
        """A name for a step of the model: the model's own for the first."""
        number, name = 1, model
        while name in self.names or (number > 1 and name in self.models):
            number += 1
            name = f"{model}-{number}"
        self.names.add(name)
        return name


def used(ensemble: str, models: Models) -> list[str]:
    """The models of an ensemble's steps, and of the ensembles among them."""
    found: dict[str, None] = {}
    queue = [ensemble]
    for name in queue:
        for step in steps(models[name]):
            if step.model_name not in found:
                found[step.model_name] = None
                queue.append(step.model_name)
    return list(found)


def answers_of(ensemble: str, models: Models) -> Fields:
    config = models[ensemble]
    configs = [models[name] for name in used(ensemble, models)]
    defaults = Defaults(config.max_batch_size, usual_delay(configs), gpu_count(configs))
    adoption = Adoption(models, defaults, names={ensemble})
    found: Fields = {"starting_pipeline": "my-own", "project_name": ensemble}
    if re.search("[^A-Za-z0-9_]", ensemble):  # the default has `_` there
        found["ensemble_name"] = ensemble
    if any(backend_of(config) == "tensorflow" for config in configs):
        found["triton_release"] = LAST_WITH_TENSORFLOW
    for name, value, default in (
        ("gpu_count", defaults.gpu_count, 0),
        ("max_batch_size", defaults.max_batch_size, 8),
        ("max_queue_delay_us", defaults.max_queue_delay_us, 100),
    ):
        if value != default:
            found[name] = value
    found |= pipeline(ensemble, adoption)
    found |= border(config, wired(config, adoption.models), found["tensors"])
    own = of_ensemble(config, defaults) | all_outputs(config)
    return found | ({"ensemble": own} if own else {})


def gpu_count(configs: Iterable[Config]) -> int:
    counts = [0]
    for config in configs:
        counts.append(int(backend_of(config) in GPU_ONLY))
        for group in config.instance_group:
            counts.append(int(group.kind == group.KIND_GPU))
            counts += [gpu + 1 for gpu in group.gpus]
    return max(counts)


def usual_delay(configs: Iterable[Config]) -> int:
    """The queue delay that most models have, of those that batch."""
    delays = Counter(
        config.dynamic_batching.max_queue_delay_microseconds
        for config in configs
        if config.HasField("dynamic_batching")
    )
    return delays.most_common(1)[0][0] if delays else 100


def pipeline(ensemble: str, adoption: Adoption) -> Fields:
    """`tensors` and `steps` of one ensemble."""
    config = adoption.models[ensemble]
    wiring = wired(config, adoption.models)
    table = tensors(ensemble, config, wiring)
    return {
        "tensors": {name: short(entry) for name, entry in table.items()},
        "steps": [step(item, table, adoption) for item in wiring],
    }


def tensors(ensemble: str, config: Config, wiring: list[Wired]) -> dict[str, Fields]:
    """What crosses a step's border, as the ensemble declares it, or else the step that writes it, or else one that reads it."""
    inputs = {tensor.name: spec(tensor) for tensor in config.input}
    outputs = {tensor.name: spec(tensor) for tensor in config.output}
    found: dict[str, Fields] = {}
    uses = [use for item in wiring for use in item.uses()]
    written = {tensor: spec for side, _, tensor, spec in uses if side == "outputs" and tensor}
    read: dict[str, list[Fields]] = {}
    for side, _, tensor, of_use in uses:
        if side == "inputs" and tensor:
            read.setdefault(tensor, []).append(of_use)
    inner = [tensor for _, _, tensor, _ in uses if tensor and tensor not in outputs]
    for name in dict.fromkeys((*inputs, *inner, *outputs)):
        specs = [inputs.get(name) or outputs.get(name), written.get(name), *read.get(name, [])]
        known = next((spec for spec in specs if spec), None)
        if known is None:
            what = f"ensemble tensor {name} has no known type: no model that reads or writes it declares it"
            raise Refused(config_of(ensemble), what, "declare the models' inputs and outputs")
        found[name] = entry(known, written.get(name, {}), read.get(name, []))
        if name in inputs and inputs[name].get("optional"):
            found[name]["optional"] = True
    return found


def entry(known: Fields, writer: Fields, readers: list[Fields]) -> Fields:
    """A row of the table: what its readers agree on is said once."""
    shared = {
        key: readers[0][key]
        for key in ("format", "ragged")
        if readers and key in readers[0] and all(r.get(key) == readers[0][key] for r in readers)
    }
    labels = {"labels": writer["labels"]} if "labels" in writer else {}
    return {"type": known["type"], "dims": known["dims"], **shared, **labels}


def short(entry: Fields) -> str | Fields:
    """`TYPE[dims]` where that is all."""
    if entry.keys() == {"type", "dims"} and entry["dims"]:
        return f"{entry['type']}[{', '.join(map(str, entry['dims']))}]"
    return entry


# What a use has from the table, by its side.
INHERITED = {
    "inputs": ("type", "dims", "optional", "ragged", "format"),
    "outputs": ("type", "dims", "labels"),
    "border inputs": ("type", "dims", "optional"),
    "border outputs": ("type", "dims"),
}
ABSENT = {"optional": False, "ragged": False, "format": None}


def override(side: str, of_use: Fields, of_tensor: Fields) -> Fields:
    """What a use says otherwise than the table."""
    has = {key: of_tensor[key] for key in INHERITED[side] if key in of_tensor}
    found = {key: value for key, value in of_use.items() if has.get(key) != value}
    return found | {key: ABSENT[key] for key in has if key not in of_use and key in ABSENT}


def uses(side: str, item: Wired, table: dict[str, Fields], first: bool) -> list[str] | Fields:
    """The tensors of a step: a list where each has the model's own name, else a mapping.

    Only the first step of a model says what the model declares.
    """
    found: Fields = {}
    for of_side, name, tensor, of_use in item.uses():
        if of_side == side and tensor is None and first:
            found[name] = of_use
        elif of_side == side and tensor is not None:
            changed = override(side, of_use, table[tensor]) if of_use and first else {}
            found[name] = {"tensor": tensor, **changed} if changed else tensor
    return list(found) if all(name == found[name] for name in found) else found


def step(item: Wired, table: dict[str, Fields], adoption: Adoption) -> Fields:
    model = item.step.model_name
    name = adoption.name(model)
    found: Fields = {"name": name}
    first = adoption.defined.setdefault(model, name) == name
    found |= {"backend": backend_of(item.model)} if first else {"model": adoption.defined[model]}
    found |= {side: uses(side, item, table, first) for side in ("inputs", "outputs")}
    if item.step.model_version != -1:
        found["version"] = item.step.model_version
    if not first:
        return found
    if is_ensemble(item.model):
        return found | nested(model, item.model, adoption)
    own = {"adapter": "none", "fuse": False} if backend_of(item.model) == "python" else {}
    return found | of_model(item.model, adoption.defaults) | own


def nested(model: str, config: Config, adoption: Adoption) -> Fields:
    found = max_batch_size(config, adoption.defaults)
    own = of_ensemble(config, adoption.defaults) | all_outputs(config)
    inside = replace(
        adoption, defaults=replace(adoption.defaults, max_batch_size=config.max_batch_size)
    )
    return found | ({"ensemble": own} if own else {}) | pipeline(model, inside)


def border(config: Config, wiring: list[Wired], table: dict[str, Any]) -> Fields:
    """`inputs` and `outputs`, where they are not what no step writes and what no step reads."""
    written = {tensor for item in wiring for tensor in item.step.output_map.values()}
    read = {tensor for item in wiring for tensor in item.step.input_map.values()}
    found: Fields = {}
    for side, declared, default in (
        ("inputs", config.input, read - written),
        ("outputs", config.output, written - read),
    ):
        changed = {
            tensor.name: override(f"border {side}", spec(tensor), long(table[tensor.name]))
            for tensor in declared
        }
        if any(changed.values()):
            found[side] = changed
        elif changed.keys() != default:
            found[side] = list(changed)
    return found


def long(entry: str | Fields) -> Fields:
    """The inverse of `short`, as far as `override` looks."""
    if isinstance(entry, dict):
        return entry
    kind, _, dims = entry.rstrip("]").partition("[")
    return {"type": kind, "dims": [int(dim) for dim in dims.split(",")]}
