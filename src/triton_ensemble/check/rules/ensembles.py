"""Ensembles"""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.check.ensemble import SCHEDULING, Ensemble
from triton_ensemble.check.examples import (
    ENSEMBLE,
    STEP,
    A,
    ensemble_text,
    replace_in,
    step_text,
)
from triton_ensemble.check.repository import Repository, ensembles
from triton_ensemble.check.rule import error, warning
from triton_ensemble.facts import catalog
from triton_ensemble.facts.config import Problem, did_you_mean

FORBIDDEN = {
    "instance_group": "instance group should not be specified",
    "optimization": "optimization should not be specified",
    "model_warmup": "model_warmup can not be specified",
}
CHAIN = (step_text("a", "X=X", "Y=M"), step_text("a", "X=M", "Y=Y"))


@error(
    "ensemble-platform",
    of=ensembles,
    triton="`Ensemble model 'x' must have platform type 'ensemble' and empty backend type`, `ensemble "
    "scheduling cannot be set for model 'x' whose platform is not ensemble`",
    fails=replace_in(ENSEMBLE, "e", "platform:", "backend:"),
    passes=ENSEMBLE,
)
def ensemble_platform(ensemble: Ensemble) -> Iterator[Problem]:
    """An ensemble has the platform ensemble, and no backend."""
    if ensemble.config.platform != "ensemble":
        what = (
            f"ensemble scheduling cannot be set for model '{ensemble.name}' "
            "whose platform is not ensemble"
        )
        yield ensemble.problem(what, 'write platform: "ensemble" and no backend', "platform")
        return
    what = f"Ensemble model '{ensemble.name}' must have platform type 'ensemble' and empty backend type"
    if ensemble.config.backend:
        yield ensemble.problem(what, "take the backend out", "backend")
    elif _is_taken_for_a_backend(ensemble.config.default_model_filename):
        instead = "take the file name out, by which Triton takes it for a backend's"
        yield ensemble.problem(what, instead, "default_model_filename")


def _is_taken_for_a_backend(file: str) -> bool:
    """Return whether Triton finds a backend by a model file, whatever the platform."""
    backend = catalog.read_backends_by_file().get(file)
    return backend is not None and not catalog.backends()[backend].platform


@error(
    "ensemble-field",
    of=ensembles,
    triton="`instance group should not be specified for ensemble 'x'`, `optimization should not ...`, "
    "`model_warmup can not be specified for ensemble 'x'`",
    fails=replace_in(ENSEMBLE, "e", "ensemble_s", "instance_group { kind: KIND_CPU }\nensemble_s"),
    passes=ENSEMBLE,
)
def ensemble_field(ensemble: Ensemble) -> Iterator[Problem]:
    """Settings about instances are in the composing models, not in the ensemble."""
    given = {field.name for field, _ in ensemble.config.ListFields()}
    for field, what in FORBIDDEN.items():
        if field in given:
            instead = "move it to the models of its steps"
            yield ensemble.problem(f"{what} for ensemble '{ensemble.name}'", instead, field)


@error(
    "step-incomplete",
    of=ensembles,
    triton="`must specify 'input_map' in step 0 of ensemble 'x'`, `must specify 'step' for ensemble 'x'`, "
    "`ensemble scheduling must be set for ensemble x whose platform is ensemble`",
    fails=replace_in(ENSEMBLE, "e", '    model_name: "a"\n', ""),
    passes=ENSEMBLE,
)
def step_incomplete(ensemble: Ensemble) -> Iterator[Problem]:
    """An ensemble has steps, and each names a model, its inputs and its outputs."""
    if not ensemble.config.HasField(SCHEDULING):
        what = (
            f"ensemble scheduling must be set for ensemble {ensemble.name} "
            "whose platform is ensemble"
        )
        yield ensemble.problem(what, "add ensemble_scheduling with its steps")
    elif not ensemble.steps:
        what = f"must specify 'step' for ensemble '{ensemble.name}'"
        yield ensemble.problem(what, "add its steps", SCHEDULING)
    for i, step in enumerate(ensemble.steps):
        for field in ("model_name", "input_map", "output_map"):
            if not getattr(step, field):
                what = f"must specify '{field}' in step {i} of ensemble '{ensemble.name}'"
                instead = "add it (the first step is step 0)"
                yield ensemble.problem(what, instead, SCHEDULING, ("step", i))


@error(
    "tensor-written-twice",
    of=ensembles,
    triton="`ensemble tensor 'x' can appear in an output map only once for ensemble 'y' step 1`",
    fails={"e": ensemble_text(STEP, STEP), "a": A},
    passes=ENSEMBLE,
)
def tensor_written_twice(ensemble: Ensemble) -> Iterator[Problem]:
    """One step writes a tensor."""
    for use in ensemble.uses("output"):
        if use != ensemble.writers[use.tensor]:
            what = (
                f"ensemble tensor '{use.tensor}' can appear in an output map only once "
                f"for ensemble '{ensemble.name}' step {use.step}"
            )
            yield ensemble.problem(what, "give it another name here", *use.place, "value")


@error(
    "ensemble-input-written",
    of=ensembles,
    triton="loads it, and runs each step that reads the tensor twice: `expected a single response, got 2`, no answer, or "
    "one of either value",
    fails={"e": ensemble_text(STEP, step_text("a", "X=X", "Y=X")), "a": A},
    passes=ENSEMBLE,
)
def ensemble_input_written(ensemble: Ensemble) -> Iterator[Problem]:
    """No step writes an input of the ensemble."""
    for use in ensemble.uses("output"):
        if use.tensor in ensemble.inputs:
            what = (
                f"step {use.step} writes '{use.tensor}', an input of ensemble '{ensemble.name}': "
                "Triton runs the steps that read it twice, and often never answers"
            )
            yield ensemble.problem(what, "give it another name here", *use.place, "value")


@error(
    "ensemble-input-unused",
    of=ensembles,
    triton="`ensemble input 'x' for ensemble y' is not used`",
    fails={"e": ensemble_text(STEP, inputs="X X2"), "a": A},
    passes=ENSEMBLE,
)
def ensemble_input_unused(ensemble: Ensemble) -> Iterator[Problem]:
    """A step reads each input of the ensemble."""
    for name, i in ensemble.inputs.items() if ensemble.steps else ():
        if name not in ensemble.readers and name not in ensemble.writers:
            what = f"ensemble input '{name}' for ensemble {ensemble.name}' is not used"
            free = ensemble.readers.keys() - ensemble.writers.keys()
            instead = did_you_mean(name, free, "drop it, or map it in a step")
            yield ensemble.problem(what, instead, ("input", i), "name")


@error(
    "ensemble-output-unwritten",
    of=ensembles,
    triton="`output 'x' for ensemble 'y' is not written: at least one of its depending tensors, 'z', is "
    "not connected`",
    fails={"e": ensemble_text(STEP, outputs="Y Z"), "a": A},
    passes=ENSEMBLE,
)
def ensemble_output_unwritten(ensemble: Ensemble) -> Iterator[Problem]:
    """Each output of the ensemble follows from its inputs."""
    for name, i in ensemble.outputs.items() if ensemble.steps else ():
        if name not in ensemble.connected:
            what = f"output '{name}' for ensemble '{ensemble.name}' is not written"
            if name in ensemble.writers:
                what += ": at least one of its depending tensors is not connected"
            free = ensemble.writers.keys() - ensemble.readers.keys() - {name}
            instead = did_you_mean(name, free, "map it in a step's output_map")
            yield ensemble.problem(what, instead, ("output", i), "name")


@error(
    "tensor-unused",
    of=ensembles,
    triton="`ensemble tensor 'x' is unused in ensemble 'y'`",
    fails={"e": ensemble_text(STEP, step_text("a", "X=X", "Y=Z")), "a": A},
    passes=ENSEMBLE,
)
def tensor_unused(ensemble: Ensemble) -> Iterator[Problem]:
    """A step writes each tensor that steps read, and reads each tensor that is not an output."""
    readers, writers = ensemble.readers, ensemble.writers
    for tensor in sorted((readers.keys() | writers.keys()) - ensemble.outputs.keys()):
        if tensor in ensemble.connected and tensor in readers:
            continue
        if tensor not in readers:
            why = "leave it out of output_map"
        elif tensor not in writers:
            why = "no step writes it; write it, or declare it as input"
        else:
            why = "what it depends on is not connected"
        choices = ensemble.outputs.keys() - ensemble.connected
        if tensor not in writers:
            choices = (writers.keys() | ensemble.inputs.keys()) - {tensor}
        what = f"ensemble tensor '{tensor}' is unused in ensemble '{ensemble.name}'"
        place = (readers.get(tensor) or writers[tensor]).place
        yield ensemble.problem(what, did_you_mean(tensor, choices, why), *place, "value")


SOUND = (
    ensemble_field,
    step_incomplete,
    tensor_written_twice,
    ensemble_input_written,
    ensemble_input_unused,
    ensemble_output_unwritten,
    tensor_unused,
)


def _is_sound(ensemble: Ensemble) -> bool:
    return not any(problem for rule in SOUND for problem in rule(ensemble))


def _find_stuck_steps(ensemble: Ensemble) -> Iterator[tuple[int, str, str]]:
    """Iterate over the steps by which each request deadlocks: the index, the ensemble that it calls and a tensor."""
    for i, step, model in ensemble.iter_composing_models():
        inner = Ensemble(model, ensemble.models)
        is_known = model.is_ensemble and _is_sound(inner)
        if tensor := inner.stuck_tensor({*step.output_map}) if is_known else "":
            yield i, model.name, tensor


def sound_ensembles(repository: Repository) -> Iterator[Ensemble]:
    """Iterate over those without such errors, but for those whose clients ask for all outputs."""
    stuck = {name for each in repository.ensembles for _, name, _ in _find_stuck_steps(each)}
    for ensemble in repository.ensembles:
        if ensemble.name not in repository.asks_for_all_outputs | stuck and _is_sound(ensemble):
            yield ensemble


INNER = {
    "e": ensemble_text(step_text("inner", "X=X", "Y=Y")),
    "inner": ensemble_text(*CHAIN, outputs="M Y"),
    "a": A,
}


@error(
    "outputs-asked",
    of=ensembles,
    triton="loads it, and refuses each request: `unexpected deadlock, at least one output is not set "
    "while no more ensemble steps can be made`",
    fails=INNER,
    passes={**INNER, "inner": ensemble_text(*CHAIN)},
)
def outputs_asked(ensemble: Ensemble) -> Iterator[Problem]:
    """A step that asks an ensemble for some of its outputs gets them (server#7482)."""
    for i, model, tensor in _find_stuck_steps(ensemble):
        what = f"step {i} does not ask {model} for all outputs, and each request deadlocks"
        instead = (
            f"map all of them, or write '{tensor}' by a step of its own that copies the tensor"
        )
        yield ensemble.problem(what, instead, SCHEDULING, ("step", i), "output_map")


@warning(
    "outputs-exposed",
    of=sound_ensembles,
    triton="`unexpected deadlock, at least one output is not set while no more ensemble steps can be "
    "made`, for a request that does not ask for all outputs",
    fails={"e": ensemble_text(*CHAIN, outputs="M Y"), "a": A},
    passes={"e": ensemble_text(*CHAIN), "a": A},
)
def outputs_exposed(ensemble: Ensemble) -> Iterator[Problem]:
    """No step reads an output of the ensemble (server#7482)."""
    for name, i in ensemble.outputs.items():
        if name in ensemble.readers:
            what = (
                f"output '{name}' is read by a step too: "
                "a request that does not ask for all outputs deadlocks"
            )
            instead = "write it by a step of its own that copies the tensor"
            yield ensemble.problem(what, instead, ("output", i), "name")


@warning(
    "outputs-apart",
    of=sound_ensembles,
    triton="the same, for some of the outputs",
    fails={
        "e": ensemble_text(STEP, step_text("a", "X=X2", "Y=Z"), inputs="X X2", outputs="Y Z"),
        "a": A,
    },
    passes={"e": ensemble_text(STEP, step_text("a", "X=X", "Y=Z"), outputs="Y Z"), "a": A},
)
def outputs_apart(ensemble: Ensemble) -> Iterator[Problem]:
    """The first step, or each output, depends on all inputs (server#7482)."""
    sources, inputs = ensemble.sources, ensemble.inputs.keys()
    if ensemble.sources_of(ensemble.steps[0], sources) == inputs:
        return
    for name, i in ensemble.outputs.items():
        if sources[name] != inputs:
            what = (
                f"output '{name}' depends on some of the inputs only, and the first step too: "
                "a request for some outputs may deadlock"
            )
            instead = (
                "list a step first that depends on all inputs, or let clients ask for all outputs"
            )
            yield ensemble.problem(what, instead, ("output", i), "name")
            return


OPTIONAL = replace_in(ENSEMBLE, "a", "[4] }\noutput", "[4] optional: true }\noutput")


@warning(
    "optional-alone",
    of=ensembles,
    triton="refuses a request without the input: `out of bounds index 0: request has 0 inputs`",
    fails=replace_in(OPTIONAL, "e", "[4] }\noutput", "[4] optional: true }\noutput"),
    passes=OPTIONAL,
)
def optional_alone(ensemble: Ensemble) -> Iterator[Problem]:
    """An input that requests may leave out is not all that a step reads."""
    for i, step, model in ensemble.iter_composing_models():
        read = {step.input_map[t.name] for t in model.config.input if t.name in step.input_map}
        needed = any(not t.optional for t in model.config.input)
        if len(read) == 1 and read <= ensemble.optional_inputs and not needed:
            what = f"step {model.name} reads {min(read)} alone, which requests may leave out"
            instead = "make it no optional input, or let the step read another tensor too"
            yield ensemble.problem(what, instead, SCHEDULING, ("step", i), "input_map")
