"""Shared by tests: random pipelines, on a real Triton: what the template generates it loads, and answers as NumPy does."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import copier
import numpy as np
import tritonclient.http as triton_http  # type: ignore[import-untyped]
import yaml
from copier.errors import UserMessageError
from google.protobuf import text_format  # type: ignore[import-untyped]
from pipelines import Pipeline, bindings, tagged
from reference_step import Array
from support import problem, run, succeed
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException, np_to_triton_dtype  # type: ignore[import-untyped]

from triton_ensemble.facts.project import Project
from triton_ensemble.serve.complete import complete
from triton_ensemble.serve.local.local_triton import LocalTriton

REFERENCE = Path(__file__).with_name("reference_step.py")
STEP = """
from steps.reference_step import computed


class Step:
    def __init__(self, context):
        pass

    def __call__(self, **inputs):
        return computed({name!r}, [inputs[name] for name in {arguments!r}], {outputs!r})
"""


def build(template: Path, pipeline: Pipeline, folder: Path) -> Path:
    """Return the model repository of the pipeline's project, its steps filled in."""
    copier.run_copy(str(template), folder, data=pipeline.answers, defaults=True, quiet=True)
    shutil.copy(REFERENCE, folder / "steps")
    for path in folder.glob("model_repository/*/1/step.json"):
        manifest = json.loads(path.read_text())
        for model in manifest.get("steps", [manifest]):
            base = next(step for step in pipeline.steps if step["name"] == model["name"])
            argument = {own: name for name, own in model["arguments"].items()}
            code = STEP.format(
                name=base["name"],
                arguments=[argument[own] for own in bindings(base["inputs"])],
                outputs=pipeline.outputs(base),
            )
            (folder / "steps" / f"{model['module']}.py").write_text(code)
    project = Project.load(folder)
    if project.model_files:  # a process of its own may import this project's `models`
        succeed(run(sys.executable, "-m", "triton_ensemble", "repository", cwd=folder))
    else:
        complete(project)
    return folder / "model_repository"


@contextmanager
def serving(repository: Path) -> Iterator[triton_http.InferenceServerClient]:
    """Yield a client of a Triton that serves what it can of a repository."""
    version = repository / "sentinel" / "1"
    version.mkdir(parents=True, exist_ok=True)
    (version / "model.py").write_text("class TritonPythonModel:\n    def execute(self, r): pass\n")
    (version.parent / "config.pbtxt").write_text(
        'backend: "python" max_batch_size: 0\n'
        'input { name: "I" data_type: TYPE_INT8 dims: 1 } output { name: "O" data_type: TYPE_INT8 dims: 1 }'
    )
    arguments = ["--exit-on-error=false", "--strict-readiness=false"]
    with (
        LocalTriton(repository, "sentinel", server_args=arguments) as triton,
        closing(
            triton_http.InferenceServerClient(
                triton.http_url.removeprefix("http://"), network_timeout=10, connection_timeout=10
            )
        ) as client,
    ):
        yield client


def infer(
    client: triton_http.InferenceServerClient,
    model: str,
    request: dict[str, Array],
    outputs: Sequence[str],
) -> dict[str, Array]:
    inputs = []
    for name, array in request.items():
        inputs.append(
            triton_http.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        )
        inputs[-1].set_data_from_numpy(array)
    wanted = [triton_http.InferRequestedOutput(name) for name in outputs]
    result = client.infer(model, inputs, outputs=wanted)
    return {name: result.as_numpy(name) for name in outputs}


def reasons(client: triton_http.InferenceServerClient) -> dict[str, str]:
    """Return why each model is not ready, or an empty text if it is."""
    return {
        model["name"]: "" if model.get("state") == "READY" else model.get("reason", "not loaded")
        for model in client.get_model_repository_index()
    }


def subsets(pipeline: Pipeline) -> list[list[str]]:
    """Return all outputs, and each alone unless all requests ask for all."""
    outputs = pipeline.interface()[1]
    if pipeline.answers.get("ensemble", {}).get("all_outputs") or len(outputs) == 1:
        return [outputs]
    return [outputs, *([name] for name in outputs)]


def wrong_answer(client: triton_http.InferenceServerClient, model: str, pipeline: Pipeline) -> str:
    """Return what a request comes to that it should not."""
    everything, optional = pipeline.request(), pipeline.optional()
    requests = [(everything, outputs) for outputs in subsets(pipeline)]
    if optional:
        less = {name: array for name, array in everything.items() if name not in optional}
        requests.append((less, pipeline.interface()[1]))
    for request, outputs in requests:
        want = pipeline.walk(request)
        try:
            have = infer(client, model, request, outputs)
        except (InferenceServerException, OSError) as error:
            return f"asked for {outputs}: {error}"
        for name in outputs:
            if (
                have[name] is None
                or have[name].dtype != want[name].dtype
                or not np.array_equal(have[name], want[name])
            ):
                return f"asked for {outputs}: {name} is {have[name]}, not {want[name]}"
    return ""


def shown(answers: dict[str, Any], why: str) -> str:
    return f"{why}\n---\n{yaml.safe_dump(answers, sort_keys=False, allow_unicode=True)}"


def failures(template: Path, group: Sequence[Pipeline], folder: Path) -> list[str]:
    """Return what is wrong with the pipelines of a group, each with its pipeline.yml."""
    problems, served = [], []
    (folder / "all").mkdir(parents=True)
    for i, pipeline in enumerate(group):
        pipeline = tagged(pipeline, i)
        try:
            repository = build(template, pipeline, folder / str(i))
        except UserMessageError as error:
            problems.append(shown(group[i].answers, f"refused: {problem(error)}"))
            continue
        for config in repository.glob("*/config.pbtxt"):
            text_format.Parse(config.read_text(), model_config_pb2.ModelConfig())
            config.parent.rename(folder / "all" / config.parent.name)
        served.append(pipeline)
    with serving(folder / "all") as client:
        why = reasons(client)
        for pipeline in served:
            wrong = why[pipeline.ensemble] or wrong_answer(client, pipeline.ensemble, pipeline)
            if wrong:
                problems.append(shown(pipeline.answers, wrong))
    return problems
