"""The steps of ensembles and the models that they name"""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.check.dims import is_same_dims
from triton_ensemble.check.ensemble import SCHEDULING, Ensemble, Use
from triton_ensemble.check.examples import (
    BATCHES,
    ENSEMBLE,
    TWO_INPUTS,
    A,
    Files,
    ensemble_text,
    replace_in,
    step_text,
)
from triton_ensemble.check.repository import ensembles
from triton_ensemble.check.rule import error, warning
from triton_ensemble.check.wiring import WiredTensor
from triton_ensemble.facts.config import Problem, did_you_mean

# Two steps read what the first writes.
FORK: Files = {
    "e": ensemble_text(
        step_text("a", "X=X", "Y=M"),
        step_text("b", "X=M", "Y=Y"),
        step_text("c", "X=M", "Y=Z"),
        outputs="Y Z",
    ),
    "a": A.replace("[4]", "[-1]"),
    "b": A,
    "c": A,
}
# The second step reads what the first reads, and what it writes.
JOIN: Files = {
    "e": ensemble_text(step_text("a", "X=X", "Y=M"), step_text("b", "X=X X2=M", "Y=Y")),
    "a": A,
    "b": TWO_INPUTS,
}


@error(
    "ensemble-cycle",
    of=ensembles,
    triton="`circular dependency between ensembles: x -> y -> x`",
    fails=replace_in(ENSEMBLE, "e", '"a"', '"e"'),
    passes=ENSEMBLE,
)
def ensemble_cycle(ensemble: Ensemble) -> Iterator[Problem]:
    """No ensemble is a composing model of itself, however deep."""
    if cycle := ensemble.cycle:
        what = f"circular dependency between ensembles: {' -> '.join(cycle)}"
        i = next(i for i, step in enumerate(ensemble.steps) if step.model_name == cycle[1])
        place = (SCHEDULING, ("step", i), "model_name")
        yield ensemble.problem(what, "let one of them use another model", *place)


@error(
    "step-model",
    of=ensembles,
    triton="`ensemble x contains models that are not available or ambiguous: y`",
    fails=replace_in(ENSEMBLE, "e", '"a"', '"b"'),
    passes=ENSEMBLE,
)
def step_model(ensemble: Ensemble) -> Iterator[Problem]:
    """The model of a step is in the repository."""
    for i, step in enumerate(ensemble.steps if not ensemble.cycle else ()):
        name = step.model_name
        if name and name not in ensemble.models:
            what = (
                f"ensemble {ensemble.name} contains models that are not available "
                f"or ambiguous: {name}"
            )
            others = ensemble.models.keys() - {ensemble.name}
            instead = did_you_mean(name, others, f"add the folder {name}")
            yield ensemble.problem(what, instead, SCHEDULING, ("step", i), "model_name")


@error(
    "step-version",
    of=ensembles,
    triton="`ensemble 'x' depends on 'y' whose required version 0 is not loaded` (0 is a `model_version` "
    "that is not written)",
    fails=replace_in(ENSEMBLE, "e", "    model_version: -1\n", ""),
    passes=ENSEMBLE,
)
def step_version(ensemble: Ensemble) -> Iterator[Problem]:
    """The version that a step names is loaded, or it is -1, the latest."""
    for i, step, model in ensemble.iter_composing_models():
        if step.model_version != -1 and model.loaded and step.model_version not in model.loaded:
            what = (
                f"ensemble '{ensemble.name}' depends on '{model.name}' "
                f"whose required version {step.model_version} is not loaded"
            )
            place = (SCHEDULING, ("step", i), "model_version")
            yield ensemble.problem(what, "write model_version: -1 for the latest", *place)


@error(
    "step-batch-size",
    of=ensembles,
    triton="`ensemble x allows maximum batch size 8, but it contains model y which only allows maximum "
    "batch size to be 4`",
    fails={"e": f"max_batch_size: 8\n{ENSEMBLE['e']}", "a": BATCHES},
    passes={"e": f"max_batch_size: 4\n{ENSEMBLE['e']}", "a": BATCHES},
)
def step_batch_size(ensemble: Ensemble) -> Iterator[Problem]:
    """A composing model takes as many rows as the ensemble, or lacks a batch dimension."""
    most = ensemble.config.max_batch_size
    for i, _, model in ensemble.iter_composing_models():
        if 0 < model.config.max_batch_size < most:
            what = (
                f"ensemble {ensemble.name} allows maximum batch size {most}, but it contains model "
                f"{model.name} which only allows maximum batch size to be "
                f"{model.config.max_batch_size}"
            )
            place = (SCHEDULING, ("step", i), "model_name")
            yield ensemble.problem(what, "raise the one or lower the other", *place)


@error(
    "map-unknown-tensor",
    of=ensembles,
    triton="`in ensemble x, ensemble tensor y is mapping to non-existing input z in model m`, `... is "
    "mapped from non-existing output z in model m`",
    fails=replace_in(ENSEMBLE, "e", 'output_map { key: "Y"', 'output_map { key: "OUT"'),
    passes=ENSEMBLE,
)
def map_unknown_tensor(ensemble: Ensemble) -> Iterator[Problem]:
    """The keys of a step's maps are inputs and outputs of its model."""
    for i, step, model in ensemble.iter_composing_models():
        for side, how, mapped, tensors in (
            ("input", "is mapping to", step.input_map, model.config.input),
            ("output", "is mapped from", step.output_map, model.config.output),
        ):
            declared = [tensor.name for tensor in tensors]
            unknown = sorted(mapped.keys() - declared)
            for key in unknown if declared or not model.completes_config else ():
                what = (
                    f"in ensemble {ensemble.name}, ensemble tensor {mapped[key]} {how} "
                    f"non-existing {side} {key} in model {model.name}"
                )
                has = f"it has {', '.join(declared) or 'none'}"
                swapped = mapped[key] in declared
                instead = did_you_mean(
                    key, declared, "key and value are swapped" if swapped else has
                )
                yield ensemble.problem(what, instead, *Use(i, side, key, "").place, "key")


@error(
    "step-input-missing",
    of=ensembles,
    triton="`in ensemble x, input y in model m is not mapped to any ensemble tensors`",
    fails={"e": ensemble_text(step_text("a", "X=X", "Y=Y")), "a": TWO_INPUTS},
    passes={"e": ensemble_text(step_text("a", "X=X X2=X", "Y=Y")), "a": TWO_INPUTS},
)
def step_input_missing(ensemble: Ensemble) -> Iterator[Problem]:
    """A step maps all inputs of its model that are not optional."""
    for i, step, model in ensemble.iter_composing_models():
        for tensor in model.config.input:
            if not tensor.optional and tensor.name not in step.input_map:
                what = (
                    f"in ensemble {ensemble.name}, input {tensor.name} in model {model.name} "
                    "is not mapped to any ensemble tensors"
                )
                instead = "add it to the step's input_map"
                yield ensemble.problem(what, instead, SCHEDULING, ("step", i))


@warning(
    "optional-chain",
    of=ensembles,
    triton="refuses a request without the input: `missing required input`",
    fails=replace_in(ENSEMBLE, "e", "[4] }\noutput", "[4] optional: true }\noutput"),
    passes=ENSEMBLE,
)
def optional_chain(ensemble: Ensemble) -> Iterator[Problem]:
    """An input that requests may leave out is optional for the steps that read it."""
    for i, step, model in ensemble.iter_composing_models():
        for tensor in model.config.input:
            source = step.input_map.get(tensor.name, "")
            if not tensor.optional and source in ensemble.optional_inputs:
                what = (
                    f"input {tensor.name} of model {model.name} needs {source}, "
                    "which requests may leave out"
                )
                place = Use(i, "input", tensor.name, source).place
                yield ensemble.problem(what, "make both optional, or neither", *place)


@error(
    "tensor-types-differ",
    of=ensembles,
    triton="`in ensemble x, ensemble tensor y: inconsistent data type: TYPE_FP32 is inferred from model a "
    "while TYPE_INT32 is inferred from model b`",
    fails=replace_in(
        ENSEMBLE, "e", 'name: "X" data_type: TYPE_FP32', 'name: "X" data_type: TYPE_INT32'
    ),
    passes=ENSEMBLE,
)
def tensor_types_differ(ensemble: Ensemble) -> Iterator[Problem]:
    """All models that a tensor connects declare it with the same data type."""
    for at in ensemble.wiring.meetings:
        if at.first.type != at.own.type:
            what = (
                f"in ensemble {ensemble.name}, ensemble tensor {at.name}: inconsistent data type: "
                f"{at.first.type} is inferred from model {at.first.owner} "
                f"while {at.own.type} is inferred from model {at.own.owner}"
            )
            yield ensemble.problem_at(at, what, "make them the same")


@error(
    "tensor-shape",
    of=ensembles,
    triton="`in ensemble x, ensemble tensor y: inconsistent shape: [-1,4] is inferred from model a while "
    "[-1,5] is inferred from model b`",
    fails=replace_in(
        ENSEMBLE,
        "e",
        'name: "X" data_type: TYPE_FP32 dims: [4]',
        'name: "X" data_type: TYPE_FP32 dims: [5]',
    ),
    passes=ENSEMBLE,
)
def tensor_shape(ensemble: Ensemble) -> Iterator[Problem]:
    """All models that a tensor connects declare it with dims that match."""
    for at in ensemble.wiring.meetings:
        if at.first.type == at.own.type and not at.first.matches(at.own):
            what = (
                f"in ensemble {ensemble.name}, ensemble tensor {at.name}: inconsistent shape: "
                f"{at.first.shown} while {at.own.shown}"
            )
            yield ensemble.problem_at(at, what, "make them the same, or -1 where a dim varies")


@warning(
    "readers-differ",
    of=ensembles,
    triton="loads it, and refuses each request: two steps read a tensor with an open dim in different "
    "sizes",
    fails=replace_in(
        FORK, "c", '"X" data_type: TYPE_FP32 dims: [4]', '"X" data_type: TYPE_FP32 dims: [5]'
    ),
    passes=FORK,
)
def readers_differ(ensemble: Ensemble) -> Iterator[Problem]:
    """All steps that read a tensor can read the same request: Triton compares each with its writer only."""
    readers: dict[str, list[WiredTensor]] = {}
    for at in ensemble.wiring.meetings:
        if at.side == "output" or at.first.type != at.own.type or not at.first.matches(at.own):
            continue
        others = readers.setdefault(at.name, [])
        if other := next((each for each in others if _differ(each, at.own)), None):
            what = (
                f"ensemble tensor {at.name} is read as {at.own.shown} and {other.shown}: "
                "no request is right for both"
            )
            yield ensemble.problem_at(at, what, "make them the same, or -1 where a dim varies")
        others.append(at.own)


def _differ(one: WiredTensor, two: WiredTensor) -> bool:
    same_rank = one.batches == two.batches and len(one.dims) == len(two.dims)
    return same_rank and not is_same_dims(one.dims, two.dims)


@error(
    "decoupled-merge",
    of=ensembles,
    triton="`in ensemble x, step of model 'y' receives inputs originated from different decoupled models`",
    fails={**JOIN, "a": f"{A}model_transaction_policy {{ decoupled: true }}\n"},
    passes=JOIN,
)
def decoupled_merge(ensemble: Ensemble) -> Iterator[Problem]:
    """No step reads outputs of two decoupled models."""
    if who := ensemble.wiring.decoupled_merge:
        what = (
            f"in ensemble {ensemble.name}, {who} receives inputs "
            "originated from different decoupled models"
        )
        yield ensemble.problem(what, "let one decoupled model write all that meets", SCHEDULING)
