"""An ensemble's steps against the models that they name (core: ensemble_utils.cc)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from triton_ensemble.check.ensembles import SCHEDULING, use
from triton_ensemble.check.findings import Finding
from triton_ensemble.check.lines import Part
from triton_ensemble.check.models import Model, enum_name, fits, nearest

Models = Mapping[str, Model]


def wiring(model: Model, models: Models) -> Iterator[Finding]:
    if circle := cycle(model.name, models):
        what = f"circular dependency between ensembles: {' -> '.join(circle)}"
        step = next(i for i, step in enumerate(model.steps) if step.model_name == circle[1])
        yield model.finding(
            "ensemble-cycle",
            what,
            "let one of them use another model",
            SCHEDULING,
            ("step", step),
            "model_name",
        )
        return
    for i, step in enumerate(model.steps):
        if step.model_name:
            yield from step_problems(model, i, step, models)
    known = [models[step.model_name] for step in model.steps if step.model_name in models]
    if len(known) == len(model.steps) and all(each.config is not None for each in known):
        yield from consistency(model, models)


def cycle(name: str, models: Models) -> list[str]:
    """The ensembles from one on to itself again."""
    paths = deque([[name]])
    seen: set[str] = set()
    while paths:
        path = paths.popleft()
        for step in models[path[-1]].steps if path[-1] in models else ():
            if step.model_name == name:
                return [*path, name]
            if step.model_name not in seen:
                seen.add(step.model_name)
                paths.append([*path, step.model_name])
    return []


def step_problems(model: Model, i: int, step: Any, models: Models) -> Iterator[Finding]:
    place: tuple[Part, ...] = (SCHEDULING, ("step", i))
    used = models.get(step.model_name)
    if used is None:
        what = f"ensemble {model.name} contains models that are not available or ambiguous: {step.model_name}"
        instead = nearest(
            step.model_name, models.keys() - {model.name}, f"add the folder {step.model_name}"
        )
        yield model.finding("step-model", what, instead, *place, "model_name")
        return
    if used.config is None:
        return
    if step.model_version != -1 and used.loaded and step.model_version not in used.loaded:
        what = f"ensemble '{model.name}' depends on '{used.name}' whose required version {step.model_version} is not loaded"
        yield model.finding(
            "step-version", what, "write model_version: -1 for the latest", *place, "model_version"
        )
    assert model.config is not None
    theirs, ours = used.config.max_batch_size, model.config.max_batch_size
    if 0 < theirs < ours:
        what = f"ensemble {model.name} allows maximum batch size {ours}, but it contains model {used.name} which only allows maximum batch size to be {theirs}"
        yield model.finding(
            "step-batch-size", what, "raise the one or lower the other", *place, "model_name"
        )
    yield from map_problems(model, i, step, used)


def map_problems(model: Model, i: int, step: Any, used: Model) -> Iterator[Finding]:
    assert used.config is not None
    into, out = "is mapping to non-existing input", "is mapped from non-existing output"
    for side, how, mapped, tensors in (
        ("input", into, step.input_map, used.config.input),
        ("output", out, step.output_map, used.config.output),
    ):
        declared = [tensor.name for tensor in tensors]
        if not declared and used.completes():
            continue
        for key in sorted(mapped.keys() - declared):
            what = f"in ensemble {model.name}, ensemble tensor {mapped[key]} {how} {key} in model {used.name}"
            swapped = (
                "key and value are swapped"
                if mapped[key] in declared
                else f"it has {', '.join(declared) or 'none'}"
            )
            yield model.finding(
                "map-unknown-tensor",
                what,
                nearest(key, declared, swapped),
                *use(i, side, key),
                "key",
            )
    optional = (
        {tensor.name for tensor in model.config.input if tensor.optional}
        if model.config is not None
        else set()
    )
    for tensor in used.config.input:
        if tensor.optional:
            continue
        if tensor.name not in step.input_map:
            what = f"in ensemble {model.name}, input {tensor.name} in model {used.name} is not mapped to any ensemble tensors"
            yield model.finding(
                "step-input-missing",
                what,
                "add it to the step's input_map",
                SCHEDULING,
                ("step", i),
            )
        elif step.input_map[tensor.name] in optional:
            what = f"input {tensor.name} of model {used.name} needs {step.input_map[tensor.name]}, which requests may leave out"
            yield model.finding(
                "optional-chain",
                what,
                "make both optional, or neither",
                *use(i, "input", tensor.name),
            )


@dataclass(eq=False)
class Tensor:
    """A tensor of the ensemble, as the first that names it has it."""

    owner: str
    type: str
    dims: list[int]
    batches: bool
    before: list[Tensor] = field(default_factory=list)
    after: list[Tensor] = field(default_factory=list)
    decoupled: bool = False
    siblings: list[int] | None = None  # the label that all outputs of a step share
    label: int = 0
    visited: bool = False

    def full(self) -> list[int]:
        return ([-1] if self.batches else []) + self.dims

    def shown(self) -> str:
        return f"[{','.join(map(str, self.full()))}] is inferred from model {self.owner}"


def consistency(model: Model, models: Models) -> Iterator[Finding]:
    assert model.config is not None
    tensors: dict[str, Tensor] = {}
    sink = Tensor(model.name, "", [], False)
    batches = model.config.max_batch_size > 0
    for side in (model.config.input, model.config.output):
        for each in side:
            dims = each.reshape.shape if each.HasField("reshape") else each.dims
            tensors.setdefault(
                each.name, Tensor(model.name, enum_name(each, "data_type"), list(dims), batches)
            )
    for each in model.config.output:
        sink.before.append(tensors[each.name])
        tensors[each.name].after.append(sink)
    readers: dict[str, list[Tensor]] = {}
    for i, step in enumerate(model.steps):
        yield from compare(model, i, step, models[step.model_name], tensors, readers)
        link(step, tensors, decoupled(step.model_name, models, ()))
    if model.config.response_cache.enable and decoupled(
        model.name, {**models, model.name: model}, ()
    ):
        what = f"Response Cache does not currently support model {model.name} with 'decoupled' transaction policy"
        yield model.finding("cache", what, "take response_cache out", "response_cache")
    if what := merge(model, tensors, sink):
        yield model.finding(
            "decoupled-merge", what, "let one decoupled model write all that meets", SCHEDULING
        )


def compare(
    model: Model,
    i: int,
    step: Any,
    used: Model,
    tensors: dict[str, Tensor],
    readers: dict[str, list[Tensor]],
) -> Iterator[Finding]:
    """A step's tensors with what is known of the ensemble's."""
    assert used.config is not None
    for side, mapped, declared in (
        ("input", step.input_map, used.config.input),
        ("output", step.output_map, used.config.output),
    ):
        for each in declared:
            if each.name not in mapped:
                continue
            name = mapped[each.name]
            own = Tensor(
                used.name,
                enum_name(each, "data_type"),
                list(each.dims),
                used.config.max_batch_size > 0,
            )
            known = tensors.setdefault(name, own)
            place = use(i, side, each.name)
            who = f"in ensemble {model.name}, ensemble tensor {name}: inconsistent"
            if known.type != own.type:
                what = f"{who} data type: {known.type} is inferred from model {known.owner} while {own.type} is inferred from model {own.owner}"
                yield model.finding("tensor-types-differ", what, "make them the same", *place)
            elif not alike(known, own):
                what = f"{who} shape: {known.shown()} while {own.shown()}"
                yield model.finding(
                    "tensor-shape", what, "make them the same, or -1 where a dim varies", *place
                )
            elif side == "input":
                yield from differing(model, name, own, readers.setdefault(name, []), place)


def alike(one: Tensor, two: Tensor) -> bool:
    return fits(one.dims, two.dims) or fits(one.full(), two.full())


def differing(
    model: Model, name: str, own: Tensor, others: list[Tensor], place: tuple[Part, ...]
) -> Iterator[Finding]:
    """Readers of a tensor with an open dim: Triton compares them with its writer only."""
    for other in others:
        if (
            own.batches == other.batches
            and len(own.dims) == len(other.dims)
            and not fits(own.dims, other.dims)
        ):
            what = f"ensemble tensor {name} is read as {own.shown()} and {other.shown()}: no request is right for both"
            yield model.finding(
                "readers-differ", what, "make them the same, or -1 where a dim varies", *place
            )
            break
    others.append(own)


def decoupled(name: str, models: Models, above: tuple[str, ...]) -> bool:
    """Of an ensemble Triton finds out by its models."""
    model = models.get(name)
    if model is None or model.config is None or name in above:
        return False
    if not model.is_ensemble:
        return bool(model.config.model_transaction_policy.decoupled)
    return any(decoupled(step.model_name, models, (*above, name)) for step in model.steps)


def link(step: Any, tensors: dict[str, Tensor], is_decoupled: bool) -> None:
    shared = [-1]
    for name in step.output_map.values():
        if name not in tensors:
            continue
        tensor = tensors[name]
        tensor.decoupled, tensor.siblings = is_decoupled, shared
        for source in step.input_map.values():
            if source in tensors:
                tensor.before.append(tensors[source])
                tensors[source].after.append(tensor)


def merge(model: Model, tensors: dict[str, Tensor], sink: Tensor) -> str:
    """What comes of a decoupled model meets nothing else: not in a step, and not among the outputs."""
    assert model.config is not None
    queue = deque(tensors[each.name] for each in model.config.input)
    for tensor in queue:
        tensor.visited = True
    last = 0
    while queue:
        for tensor in queue.popleft().after:
            if tensor.visited or not all(each.visited for each in tensor.before):
                continue
            labels = {each.label for each in tensor.before}
            if len(labels) > 1:
                who = "ensemble outputs" if tensor is sink else f"step of model '{tensor.owner}'"
                return f"in ensemble {model.name}, {who} receives inputs originated from different decoupled models"
            shared = tensor.siblings if tensor.siblings is not None else [-1]
            if shared[0] < 0:
                last += tensor.decoupled
                shared[0] = last if tensor.decoupled else labels.pop()
            tensor.label, tensor.visited = shared[0], True
            queue.append(tensor)
    return ""
