"""An ensemble's own config: its steps and how the tensors between them flow (core: ValidateEnsembleSchedulingConfig)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from triton_ensemble.check.findings import Finding
from triton_ensemble.check.lines import Part
from triton_ensemble.check.models import Model, Setting, nearest

FORBIDDEN = {
    "instance_group": "instance group should not be specified",
    "optimization": "optimization should not be specified",
    "model_warmup": "model_warmup can not be specified",
}
SCHEDULING = "ensemble_scheduling"


def use(i: int, side: str, key: str) -> tuple[Part, ...]:
    """Where step i says what a tensor of its model is."""
    return (SCHEDULING, ("step", i), (f"{side}_map", key))


def ensemble(model: Model, setting: Setting) -> Iterator[Finding]:
    found = [*forbidden(model), *incomplete(model)]
    if model.steps:
        found += [*flow(model)]
    yield from found
    if (
        not any(f.severity == "error" for f in found)
        and model.name not in setting.asks_for_all_outputs
    ):
        yield from deadlocks(model)


def forbidden(model: Model) -> Iterator[Finding]:
    assert model.config is not None
    for field, what in FORBIDDEN.items():
        if (
            model.config.HasField(field)
            if field == "optimization"
            else getattr(model.config, field)
        ):
            yield model.finding(
                "ensemble-field",
                f"{what} for ensemble '{model.name}'",
                "move it to the models of its steps",
                field,
            )
    if not model.config.HasField(SCHEDULING):
        what = (
            f"ensemble scheduling must be set for ensemble {model.name} whose platform is ensemble"
        )
        yield model.finding("step-incomplete", what, "add ensemble_scheduling with its steps")
    elif not model.steps:
        yield model.finding(
            "step-incomplete",
            f"must specify 'step' for ensemble '{model.name}'",
            "add its steps",
            SCHEDULING,
        )


def incomplete(model: Model) -> Iterator[Finding]:
    for i, step in enumerate(model.steps):
        for field in ("model_name", "input_map", "output_map"):
            if not getattr(step, field):
                what = f"must specify '{field}' in step {i} of ensemble '{model.name}'"
                yield model.finding(
                    "step-incomplete",
                    what,
                    "add it (the first step is step 0)",
                    SCHEDULING,
                    ("step", i),
                )


def flow(model: Model) -> Iterator[Finding]:
    """Each tensor is written once, and all of them come of the ensemble's inputs and go on."""
    assert model.config is not None
    inputs = {tensor.name: i for i, tensor in enumerate(model.config.input)}
    outputs = {tensor.name: i for i, tensor in enumerate(model.config.output)}
    written: dict[str, tuple[Part, ...]] = {}
    read: dict[str, tuple[Part, ...]] = {}
    for i, step in enumerate(model.steps):
        for key, tensor in sorted(step.output_map.items()):
            place = use(i, "output", key)
            if tensor in written:
                what = f"ensemble tensor '{tensor}' can appear in an output map only once for ensemble '{model.name}' step {i}"
                yield model.finding(
                    "tensor-written-twice", what, "give it another name here", *place, "value"
                )
            written.setdefault(tensor, place)
            if tensor in inputs:
                what = f"step {i} writes '{tensor}', an input of ensemble '{model.name}': Triton loads it and never answers"
                yield model.finding(
                    "ensemble-input-written", what, "give it another name here", *place, "value"
                )
        for key, tensor in sorted(step.input_map.items()):
            read.setdefault(tensor, use(i, "input", key))
    for name, i in inputs.items():
        if name not in read and name not in written:
            what = f"ensemble input '{name}' for ensemble {model.name}' is not used"
            yield model.finding(
                "ensemble-input-unused",
                what,
                nearest(name, read.keys() - written.keys(), "drop it, or map it in a step"),
                ("input", i),
                "name",
            )
    ready = reached(model)
    for name, i in outputs.items():
        if name not in ready:
            what = f"output '{name}' for ensemble '{model.name}' is not written"
            if name in written:
                what += ": at least one of its depending tensors is not connected"
            yield model.finding(
                "ensemble-output-unwritten",
                what,
                nearest(
                    name, written.keys() - read.keys() - {name}, "map it in a step's output_map"
                ),
                ("output", i),
                "name",
            )
    for tensor in sorted((read.keys() | written.keys()) - outputs.keys()):
        if tensor not in ready or tensor not in read:
            place = read.get(tensor) or written[tensor]
            what = f"ensemble tensor '{tensor}' is unused in ensemble '{model.name}'"
            why = (
                "leave it out of output_map"
                if tensor not in read
                else "no step writes it; write it, or declare it as input"
                if tensor not in written
                else "what it depends on is not connected"
            )
            choices = (
                (written.keys() | inputs.keys()) - {tensor}
                if tensor not in written
                else outputs.keys() - ready
            )
            yield model.finding(
                "tensor-unused", what, nearest(tensor, choices, why), *place, "value"
            )


def reached(model: Model) -> set[str]:
    """What follows from the ensemble's inputs."""
    assert model.config is not None
    found = {tensor.name for tensor in model.config.input}
    waiting = deque(model.steps)
    idle = 0
    while waiting and idle < len(waiting):
        step = waiting.popleft()
        if found.issuperset(step.input_map.values()):
            found.update(step.output_map.values())
            idle = 0
        else:
            waiting.append(step)
            idle += 1
    return found


def deadlocks(model: Model) -> Iterator[Finding]:
    """What Triton loads, and then answers only where a request asks for all outputs (server#7482)."""
    assert model.config is not None
    read = {tensor for step in model.steps for tensor in step.input_map.values()}
    for i, tensor in enumerate(model.config.output):
        if tensor.name in read:
            what = f"output '{tensor.name}' is read by a step too: a request that does not ask for all outputs deadlocks"
            yield model.finding(
                "outputs-exposed",
                what,
                "write it by a step of its own that copies the tensor",
                ("output", i),
                "name",
            )
    needs = needed(model)
    inputs = {tensor.name for tensor in model.config.input}
    first = set().union(*(needs[tensor] for tensor in model.steps[0].input_map.values()))
    for i, tensor in enumerate(model.config.output):
        if needs[tensor.name] != inputs and first != inputs:
            what = f"output '{tensor.name}' depends on some of the inputs only, and the first step too: a request for some outputs may deadlock"
            yield model.finding(
                "outputs-apart",
                what,
                "list a step first that depends on all inputs, or let clients ask for all outputs",
                ("output", i),
                "name",
            )
            return


def needed(model: Model) -> dict[str, set[str]]:
    """The inputs that each tensor depends on."""
    assert model.config is not None
    found = {tensor.name: {tensor.name} for tensor in model.config.input}
    waiting = deque(model.steps)
    while waiting:
        step = waiting.popleft()
        if found.keys() >= {*step.input_map.values()}:
            of_step = set().union(*(found[tensor] for tensor in step.input_map.values()))
            found |= dict.fromkeys(step.output_map.values(), of_step)
        else:
            waiting.append(step)
    return found
