"""The release and the GPUs of the server"""

from __future__ import annotations

import re
from collections.abc import Iterator

from triton_ensemble.check.ensemble import SCHEDULING, Ensemble
from triton_ensemble.check.examples import (
    BATCHES,
    A,
    E,
    Files,
    ensemble_text,
    step_text,
)
from triton_ensemble.check.repository import Served, iter_served_models
from triton_ensemble.check.rule import error, warning
from triton_ensemble.check.rules.tensors import tensors
from triton_ensemble.facts import catalog
from triton_ensemble.facts.config import (
    Part,
    Problem,
    enum_name,
    type_name,
)

REFUSES_OUTPUT_TWICE = "26.05"  # the first release that does
SCHEDULES_PAST_FAILURES = "26.05"  # the first release with core#483
FAN = ensemble_text(step_text("a", "X=X", "Y=Y"), step_text("a", "X=X", "Y=Z"), outputs="Y Z")
TENSORRT = A.replace("python", "tensorrt")
OLDEST = "24.10"
SEQUENCE = 'sequence_batching { control_input { name: "I" control { kind: CONTROL_SEQUENCE_CORRID data_type: '
STRING_IDS = f"{BATCHES}{SEQUENCE}TYPE_STRING }} }} }}\n"


def _find_repeated(served: Served, side: str) -> Iterator[tuple[str, Problem]]:
    """Yield the name of each tensor that is declared again, and the problem."""
    seen: set[str] = set()
    for i, tensor in enumerate(getattr(served.model.config, side)):
        if tensor.name and tensor.name in seen:
            what = f"{side} {tensor.name} is declared twice"
            yield tensor.name, served.model.problem(what, "drop one", (side, i), "name")
        seen.add(tensor.name)


def _refuses_twice(served: Served, output: str) -> bool:
    """Return whether Triton refuses an output that is declared twice: always, or as an ensemble has mapped it."""
    release = served.repository.release or REFUSES_OUTPUT_TWICE
    return release >= REFUSES_OUTPUT_TWICE or any(
        step.model_name == served.model.name and output in step.output_map
        for ensemble in served.repository.ensembles
        for step in ensemble.steps
    )


@error(
    "input-twice",
    of=iter_served_models,
    triton="loads it, and refuses each request: `expected 2 inputs but got 1 inputs for model 'x'`",
    fails='input { name: "X" data_type: TYPE_INT32 dims: [1] }\n' + A,
    passes='input { name: "N" data_type: TYPE_INT32 dims: [1] }\n' + A,
)
def input_twice(served: Served) -> Iterator[Problem]:
    """An input that requests must have is declared once."""
    for name, problem in _find_repeated(served, "input"):
        if not _is_optional(served, name):
            yield problem


@warning(
    "tensor-twice",
    of=iter_served_models,
    triton="takes one of two outputs before 26.05; of two optional inputs, requests may have neither",
    fails={
        ".copier-answers.yml": 'triton_release: "25.10"\nsteps: []\n',
        "model_repository/m/config.pbtxt": 'output { name: "Y" data_type: TYPE_INT32 dims: [1] }\n'
        + A,
    },
    passes='output { name: "N" data_type: TYPE_INT32 dims: [1] }\n' + A,
)
def tensor_twice(served: Served) -> Iterator[Problem]:
    """A tensor is declared once, also where Triton does not refuse it, or not yet."""
    for name, problem in _find_repeated(served, "input"):
        if _is_optional(served, name):
            yield problem
    for name, problem in _find_repeated(served, "output"):
        if not _refuses_twice(served, name):
            yield problem


def _is_optional(served: Served, name: str) -> bool:
    return all(each.optional for each in served.model.config.input if each.name == name)


@error(
    "output-twice",
    of=iter_served_models,
    triton="refuses it since 26.05; before, the ensemble that maps it: `multiple outputs in model 'm' mapped to the "
    "same ensemble tensor`",
    fails='output { name: "Y" data_type: TYPE_INT32 dims: [1] }\n' + A,
    passes='output { name: "N" data_type: TYPE_INT32 dims: [1] }\n' + A,
)
def output_twice(served: Served) -> Iterator[Problem]:
    """An output is declared once."""
    for name, problem in _find_repeated(served, "output"):
        if _refuses_twice(served, name):
            yield problem


@error(
    "too-new",
    of=iter_served_models,
    triton='`Message type "inference.ModelEnsembling" has no field named "max_inflight_requests"` in '
    "older releases",
    fails={
        ".copier-answers.yml": 'triton_release: "25.10"\nsteps: []\n',
        "model_repository/e/config.pbtxt": E.replace(
            "  step", "  max_inflight_requests: 8\n  step"
        ),
        "model_repository/a/config.pbtxt": A,
    },
    passes={
        ".copier-answers.yml": 'triton_release: "25.11"\nsteps: []\n',
        "model_repository/e/config.pbtxt": E.replace(
            "  step", "  max_inflight_requests: 8\n  step"
        ),
        "model_repository/a/config.pbtxt": A,
    },
)
def too_new(served: Served) -> Iterator[Problem]:
    """If the release is known, a config has only fields of that release."""
    release = served.repository.release
    if not release:
        return
    newer = {
        word: name
        for name, row in catalog.releases().items()
        for word in row.adds
        if name > release
    }
    for field in served.model.fields.walk():
        if field.name in newer:
            what = (
                f'Message type has no field named "{field.name}" before Triton {newer[field.name]}'
            )
            instead = f"take it out, or raise the release from {release}"
            yield Problem(served.model.path, field.line, what, instead)


A_PACKAGE = """\
platform: "torch_aoti"
input { name: "INPUT__0" data_type: TYPE_FP32 dims: [4] }
output { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [4] }
"""
BY_PLACE = {"input": r"INPUT__[0-9]+", "output": r"OUTPUT__[0-9]+"}
BY_CALL = {"input": r"(KW)?ARGS(\[[^]\[\s]+\])+", "output": r"RESULT(\[[^]\[\s]+\])*"}


def _package(release: str, config: str = A_PACKAGE) -> Files:
    return {
        ".copier-answers.yml": f'triton_release: "{release}"\nsteps: []\n',
        "model_repository/m/config.pbtxt": config,
        "model_repository/m/1/model.pt2": "a package\n",
    }


@error(
    "aoti",
    of=iter_served_models,
    triton="`unexpected platform type 'torch_aoti'` before 26.03; takes no other names for tensors of a package",
    fails=_package("26.02"),
    passes=_package("26.03"),
)
def aoti(served: Served) -> Iterator[Problem]:
    """A package of AOTInductor has a release that loads it, and tensors by the names of its call."""
    model, release = served.model, served.repository.release
    if model.config.platform != "torch_aoti":
        return
    if release and release < "26.03":
        what = f"unexpected platform type 'torch_aoti' for {model.name}, which came with 26.03"
        instead = f"raise the release from {release}, or write TorchScript, model.pt"
        yield model.problem(what, instead, "platform")
    for tensor, place, words in tensors(model):
        side, i = str(place[0]), place[1]
        by_call = "" if release and release < "26.05" else f"|{BY_CALL[side]}"
        if tensor.name and not re.fullmatch(BY_PLACE[side] + by_call, tensor.name):
            more = f", or by its place in the call, as {'ARGS[0]' if side == 'input' else 'RESULT'}"
            instead = f"name it {side.upper()}__{i}{more if by_call else ''}"
            yield model.problem(f"{words} is not of a package", instead, place, "name")


@warning(
    "aoti-batch",
    of=iter_served_models,
    triton="runs no batches of a package before 26.06",
    fails=_package("26.05", f"max_batch_size: 8\n{A_PACKAGE}"),
    passes=_package("26.06", f"max_batch_size: 8\n{A_PACKAGE}"),
)
def aoti_batch(served: Served) -> Iterator[Problem]:
    """A package of AOTInductor has batches only since 26.06."""
    model, release = served.model, served.repository.release
    is_package = model.config.platform == "torch_aoti"
    if is_package and model.config.max_batch_size > 1 and release and release < "26.06":
        what = f"batches of torch_aoti came with 26.06, and the release is {release}"
        yield model.problem(what, "raise it, or write max_batch_size: 1", "max_batch_size")


def _begin_together(ensemble: Ensemble) -> list[str]:
    """The models of the first steps that may begin at the same time: with the request, or as another step ends."""
    writers = [
        {use.step for tensor in step.input_map.values() if (use := ensemble.writers.get(tensor))}
        for step in ensemble.steps
    ]
    by_event: dict[int | None, list[str]] = {}
    for step, before in zip(ensemble.steps, writers, strict=True):
        last: set[int | None] = {*(before - _list_all_before(before, writers))}
        for event in last or {None}:
            by_event.setdefault(event, []).append(step.model_name)
    return next((models for models in by_event.values() if len(models) > 1), [])


def _list_all_before(steps: set[int], writers: list[set[int]]) -> set[int]:
    """The steps that these wait for, directly or not."""
    before, waiting = set[int](), [*steps]
    while waiting:
        more = writers[waiting.pop()] - before
        before |= more
        waiting += more
    return before


@warning(
    "steps-together",
    of=iter_served_models,
    triton="may die (signal 11) or hang before 26.05: one fails, if only by a bad request, before the next is scheduled",
    fails={
        ".copier-answers.yml": 'triton_release: "26.04"\nsteps: []\n',
        "model_repository/e/config.pbtxt": FAN,
        "model_repository/a/config.pbtxt": A,
    },
    passes={
        ".copier-answers.yml": 'triton_release: "26.05"\nsteps: []\n',
        "model_repository/e/config.pbtxt": FAN,
        "model_repository/a/config.pbtxt": A,
    },
)
def steps_together(served: Served) -> Iterator[Problem]:
    """No steps of an ensemble begin at the same time, on releases that a failing one may end."""
    release = served.repository.release
    if not release or release >= SCHEDULES_PAST_FAILURES or not served.model.is_ensemble:
        return
    if models := _begin_together(Ensemble(served.model, served.repository.folders)):
        what = (
            f"{' and '.join(models[:2])} begin at the same time: Triton {release} may die (signal 11) "
            "or hang when one of them fails"
        )
        instead = (
            f"raise the release to {SCHEDULES_PAST_FAILURES} or later, or join them in one step"
        )
        yield served.model.problem(what, instead, SCHEDULING)


@error(
    "correlation-id-text",
    of=iter_served_models,
    triton="`unexpected number of string elements 2 for inference input 'x', expecting 1`, for each request, in 24.10",
    fails={
        ".copier-answers.yml": 'triton_release: "24.10"\nsteps: []\n',
        "model_repository/m/config.pbtxt": STRING_IDS,
    },
    passes={
        ".copier-answers.yml": 'triton_release: "25.10"\nsteps: []\n',
        "model_repository/m/config.pbtxt": STRING_IDS,
    },
)
def correlation_id_text(served: Served) -> Iterator[Problem]:
    """If the release is known, it passes correlation ids that are texts to a model."""
    if served.repository.release != OLDEST:
        return
    for i, tensor in enumerate(served.model.config.sequence_batching.control_input):
        ids = [each for each in tensor.control if each.kind == each.CONTROL_SEQUENCE_CORRID]
        if any(type_name(control) == "STRING" for control in ids):
            what = f"Triton {OLDEST} refuses each request with a text as correlation id"
            place = ("sequence_batching", ("control_input", i))
            yield served.model.problem(what, "write TYPE_UINT64, or raise the release", *place)


@error(
    "backend-gone",
    of=iter_served_models,
    triton="`unable to find backend library for backend 'tensorflow'` since 25.03",
    fails={
        ".copier-answers.yml": 'triton_release: "25.03"\nsteps: []\n',
        "model_repository/m/config.pbtxt": 'platform: "tensorflow_savedmodel"\n',
    },
    passes={
        ".copier-answers.yml": 'triton_release: "25.02"\nsteps: []\n',
        "model_repository/m/config.pbtxt": 'platform: "tensorflow_savedmodel"\n',
    },
)
def backend_gone(served: Served) -> Iterator[Problem]:
    """If the release is known, it still has the backend."""
    name = served.model.backend
    known = catalog.backends().get(name)
    if known and known.until and served.repository.release > known.until:
        what = f"{name} went with Triton {known.until}"
        yield served.model.problem(what, "lower the release, or take another backend", "platform")


@error(
    "gpu-backend",
    of=iter_served_models,
    triton="`unable to load model 'x', TensorRT backend supports only GPU device`; vLLM and TensorRT-LLM end without a GPU",
    fails={"m": f"{TENSORRT}instance_group {{ kind: KIND_CPU }}\n", "m/1/model.plan": "plan"},
    passes={"m": f"{TENSORRT}instance_group {{ kind: KIND_GPU }}\n", "m/1/model.plan": "plan"},
)
def gpu_backend(served: Served) -> Iterator[Problem]:
    """A model of a backend for GPUs has instances on GPUs."""
    model, count = served.model, served.repository.gpu_count
    known = catalog.backends().get(model.backend)
    if not (known and known.gpu):
        return
    if count == 0:
        what = f"{model.backend} serves on GPUs only, and `gpu_count` is 0"
        yield model.problem(what, "raise it in pipeline.yml, or take another backend", "backend")
    for i, group in enumerate(model.config.instance_group) if count != 0 else ():
        if enum_name(group, "kind") == "KIND_CPU" and not known.device:
            what = f"unable to load model '{model.name}', {model.backend} supports only GPU device"
            yield model.problem(what, "write KIND_GPU", ("instance_group", i), "kind")


@error(
    "instance-gpu-count",
    of=iter_served_models,
    triton="`instance group x of model y specifies invalid or unsupported gpu id 2`, if the server has "
    "no more than the project's `gpu_count`",
    fails={
        ".copier-answers.yml": "gpu_count: 0\nsteps: []\n",
        "model_repository/m/config.pbtxt": f"{A}instance_group {{ kind: KIND_GPU }}\n",
    },
    passes={
        ".copier-answers.yml": "gpu_count: 1\nsteps: []\n",
        "model_repository/m/config.pbtxt": f"{A}instance_group {{ kind: KIND_GPU }}\n",
    },
)
def instance_gpu_count(served: Served) -> Iterator[Problem]:
    """If the number of GPUs is known, instances run only on these."""
    model, count = served.model, served.repository.gpu_count
    if count is None or model.is_ensemble:
        return
    for i, group in enumerate(model.config.instance_group):
        kind = enum_name(group, "kind")
        highest = max(*group.gpus, 0 if kind == "KIND_GPU" else -1, -1)
        if kind not in ("KIND_CPU", "KIND_MODEL") and highest >= count:
            who = f"instance group {group.name or f'{model.name}_{i}'} of model {model.name}"
            what = f"{who} wants a GPU that the server has not: it has {count}"
            place: Part = ("instance_group", i)
            lower = "number them from 0" if group.gpus else "write KIND_CPU"
            part = "gpus" if group.gpus else "kind"
            yield model.problem(what, f"{lower}, or raise gpu_count in pipeline.yml", place, part)
