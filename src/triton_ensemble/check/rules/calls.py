"""Calls of other models"""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.check.calls import Call, find_called_models, iter_call_cycles
from triton_ensemble.check.ensemble import is_decoupled
from triton_ensemble.check.examples import MODEL, A, Files
from triton_ensemble.check.repository import Repository
from triton_ensemble.check.rule import error, warning
from triton_ensemble.facts.config import Model, Problem, did_you_mean


def write_caller(name: str) -> str:
    """Return the code of a model that may call another one."""
    body = f"request = pb_utils.InferenceRequest(model_name='{name}')\n        "
    return MODEL.replace("return", f"{body}return")


def list_executing(name: str, *arguments: str, given: str = "") -> Files:
    """Return the files of a model `m` that calls another one for each batch of requests."""
    code = write_caller(name).replace("')\n", f"'{given}).exec({', '.join(arguments)})\n")
    return {"m": PYTHON, "m/1/model.py": code, "other": A}


PYTHON = 'backend: "python"\n'
DECOUPLED = f"{PYTHON}model_transaction_policy {{ decoupled: true }}\n"


def iter_named_calls(repository: Repository) -> Iterator[tuple[Call, Repository]]:
    """Iterate over the calls of models that the code names."""
    return ((call, repository) for call in repository.bls_calls if call.says_model)


def find_sure_cycles(repository: Repository) -> Iterator[tuple[Call, list[str]]]:
    """Iterate over calls that lead to their own model again, once for each cycle, with the names on the way."""
    models = repository.models
    calls = {
        name: {step.model_name for step in model.steps} & models.keys()
        for name, model in models.items()
    }
    certain = [
        call
        for call in repository.bls_calls
        if call.is_certain and call.function == "execute" and call.version == -1
    ]
    for call in certain:
        calls[call.caller] |= {call.model} & models.keys()
    for way in iter_call_cycles(calls):
        calls_on_it = (call for call in certain if {call.caller, call.model} <= {*way})
        yield from ((call, way) for call in [*calls_on_it][:1])


def find_cycles(repository: Repository) -> Iterator[tuple[Model, list[str]]]:
    """Iterate over the models that may call themselves over others, once for each cycle, with the names on the way."""
    models = repository.models
    sure = [{*way} for _, way in find_sure_cycles(repository)]
    for way in iter_call_cycles(
        {name: find_called_models(model, models) for name, model in models.items()}
    ):
        if {*way} not in sure:
            yield models[way[0]], way


@error(
    "calls-unknown",
    of=iter_named_calls,
    triton="loads it, and the call fails for each request: `Failed for execute the inference request. Model 'x' is "
    "not ready.`",
    fails=list_executing("another"),
    passes=list_executing("other"),
)
def calls_unknown(found: tuple[Call, Repository]) -> Iterator[Problem]:
    """A model that a Python model always calls is in the repository."""
    call, repository = found
    if call.model not in repository.folders:
        what = f"calls the model {call.model!r}, which is not there: each request fails"
        instead = did_you_mean(call.model, repository.folders, "name a model of the repository")
        yield call.file.problem(call.node, what, instead)


@error(
    "calls-version",
    of=iter_named_calls,
    triton="loads it, and the call fails for each request: `Failed for execute the inference request. Model 'x' is "
    "not ready.`",
    fails=list_executing("other", given=", model_version=2"),
    passes=list_executing("other", given=", model_version=1"),
)
def calls_version(found: tuple[Call, Repository]) -> Iterator[Problem]:
    """A version that a Python model calls is loaded, or it is -1, the latest."""
    call, repository = found
    model = repository.models.get(call.model)
    if model and model.loaded and call.version not in (None, -1, *model.loaded):
        what = (
            f"calls version {call.version} of {call.model}, which is not loaded: each request fails"
        )
        yield call.file.problem(call.node, what, "leave model_version out for the latest")


@error(
    "calls-tensor",
    of=iter_named_calls,
    triton="loads it, and the call fails for each request: `unexpected inference input 'x' for model 'm'`, or `output`, or "
    "`missing required input(s) ['x']`",
    fails=list_executing("other", given=", requested_output_names=['Z']"),
    passes=list_executing("other", given=", requested_output_names=['Y']"),
)
def calls_tensor(found: tuple[Call, Repository]) -> Iterator[Problem]:
    """The tensors that a call names are inputs and outputs of the called model, and it gives all inputs."""
    call, repository = found
    if not (model := repository.models.get(call.model)):
        return
    inputs = model.config.input
    given = {name for side, name in call.tensors if side == "input"}
    missing = [each.name for each in inputs if not each.optional and each.name not in given]
    if call.gives_known_inputs and missing and given <= {each.name for each in inputs}:
        lacking = " and no ".join(missing)
        what = f"gives {call.model} no {lacking}, which it needs: each request fails"
        yield call.file.problem(call.node, what, "give the request all inputs")
    for side, name in call.tensors:
        declared = [tensor.name for tensor in getattr(model.config, side)]
        if name not in declared and (declared or not model.completes_config):
            how = "gives {} the input" if side == "input" else "asks {} for the output"
            what = f"{how.format(call.model)} {name}, which it lacks: each request fails"
            instead = did_you_mean(name, declared, f"it has {', '.join(declared) or 'none'}")
            yield call.file.problem(call.node, what, instead)


@error(
    "calls-decoupled",
    of=iter_named_calls,
    triton="loads it, and the call fails for each request: `The current BLS request call doesn't support models using "
    "the decoupled transaction policy`",
    fails={**list_executing("other"), "other": DECOUPLED},
    passes={**list_executing("other", "decoupled=True"), "other": DECOUPLED},
)
def calls_decoupled(found: tuple[Call, Repository]) -> Iterator[Problem]:
    """A call of a decoupled model has `decoupled=True`."""
    call, repository = found
    says = call.node.args or call.node.keywords
    if not says and is_decoupled(call.model, repository.folders):
        what = f"calls {call.model}, which is decoupled, as if it were not: each request fails"
        yield call.file.problem(
            call.node, what, "write decoupled=True, and read the answers in turn"
        )


@error(
    "calls-itself",
    of=find_sure_cycles,
    triton="loads it, and waits for ever with each request",
    fails=list_executing("m"),
    passes=list_executing("other"),
)
def calls_itself(found: tuple[Call, list[str]]) -> Iterator[Problem]:
    """A Python model does not always call itself, or an ensemble that it is a part of."""
    call, way = found
    what = f"calls itself for each request, so that none is answered: {' -> '.join(way)}"
    yield call.file.problem(call.node, what, "call another model")


@error(
    "calls-initialize",
    of=lambda repository: repository.bls_calls,
    triton="`BLS is only supported during the 'execute' function.`",
    fails={
        **list_executing("other"),
        "m/1/model.py": MODEL
        + """
    def initialize(self, args):
        self.answer = pb_utils.InferenceRequest(model_name="other").exec()
""",
    },
    passes=list_executing("other"),
)
def calls_initialize(call: Call) -> Iterator[Problem]:
    """A Python model does not call others while it loads."""
    if call.function == "initialize":
        what = "calls a model in initialize: BLS is only supported during the 'execute' function"
        yield call.file.problem(call.node, what, "call it in execute")


@warning(
    "calls-cycle",
    of=find_cycles,
    triton="loads them; once all instances wait for each other, requests wait for ever",
    fails={
        "a": 'backend: "python"\n',
        "a/1/model.py": write_caller("b"),
        "b": 'backend: "python"\n',
        "b/1/model.py": write_caller("a"),
    },
    passes={
        "a": 'backend: "python"\n',
        "a/1/model.py": write_caller("b"),
        "b": 'backend: "python"\n',
        "b/1/model.py": MODEL,
    },
)
def calls_cycle(found: tuple[Model, list[str]]) -> Iterator[Problem]:
    """Python models that call others by BLS do not call each other, as far as their code names them."""
    model, way = found
    what = f"models name each other in code that calls models: {' -> '.join(way)}"
    instead = (
        "let one answer without the others: they wait for each other for ever once all instances do"
    )
    yield model.problem(what, instead)
