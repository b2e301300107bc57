"""The release and the GPUs of the server"""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble import catalog
from triton_ensemble.check.examples import A, E
from triton_ensemble.check.repository import Served, served_models
from triton_ensemble.check.rule import error, warning
from triton_ensemble.config import Part, Problem, enum_name

REFUSES_OUTPUT_TWICE = "26.05"  # the first release that does


def _repeated(served: Served, side: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for i, tensor in enumerate(getattr(served.model.config, side)):
        if tensor.name and tensor.name in seen:
            what = f"{side} {tensor.name} is declared twice"
            yield served.model.problem(what, "drop one", (side, i), "name")
        seen.add(tensor.name)


def _refuses_output_twice(served: Served) -> bool:
    return (served.repository.release or REFUSES_OUTPUT_TWICE) >= REFUSES_OUTPUT_TWICE


@error(
    "input-twice",
    of=served_models,
    triton="loads it, and refuses each request: `expected 2 inputs but got 1 inputs for model 'x'`",
    fails='input { name: "X" data_type: TYPE_INT32 dims: [1] }\n' + A,
    passes='input { name: "N" data_type: TYPE_INT32 dims: [1] }\n' + A,
)
def input_twice(served: Served) -> Iterator[Problem]:
    """An input is declared once."""
    yield from _repeated(served, "input")


@warning(
    "tensor-twice",
    of=served_models,
    triton="takes one of the two before 26.05",
    fails={
        ".copier-answers.yml": 'triton_release: "25.10"\nsteps: []\n',
        "model_repository/m/config.pbtxt": 'output { name: "Y" data_type: TYPE_INT32 dims: [1] }\n'
        + A,
    },
    passes='output { name: "N" data_type: TYPE_INT32 dims: [1] }\n' + A,
)
def tensor_twice(served: Served) -> Iterator[Problem]:
    """An output is declared once, where Triton does not refuse it yet."""
    if not _refuses_output_twice(served):
        yield from _repeated(served, "output")


@error(
    "output-twice",
    of=served_models,
    triton="refuses it since 26.05",
    fails='output { name: "Y" data_type: TYPE_INT32 dims: [1] }\n' + A,
    passes='output { name: "N" data_type: TYPE_INT32 dims: [1] }\n' + A,
)
def output_twice(served: Served) -> Iterator[Problem]:
    """An output is declared once."""
    if _refuses_output_twice(served):
        yield from _repeated(served, "output")


@error(
    "too-new",
    of=served_models,
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
    """A config has only fields that the release knows, as far as it is said."""
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


@error(
    "backend-gone",
    of=served_models,
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
    """The release still has the backend, as far as it is said."""
    name = served.model.backend
    known = catalog.backends().get(name)
    if known and known.until and served.repository.release > known.until:
        what = f"{name} went with Triton {known.until}"
        yield served.model.problem(what, "export the model to ONNX", "platform")


@warning(
    "instance-gpu-count",
    of=served_models,
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
    """Instances run on GPUs that the server has, as far as it is said."""
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
            instead = "write KIND_CPU, or raise gpu_count in pipeline.yml"
            yield model.problem(what, instead, place, "kind")
