"""Get the inputs of a step for a sample request: only the models before it run."""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from tritonclient import grpc  # type: ignore[import-untyped]
from tritonclient.utils import (  # type: ignore[import-untyped]
    InferenceServerException,
    triton_to_np_dtype,
)

from triton_ensemble.facts.client import Arrays, package, split_sequence
from triton_ensemble.facts.config.message import type_name
from triton_ensemble.facts.config.repository import list_called_models, model_configs
from triton_ensemble.facts.project import Project
from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.ports import grpc_target, server_at, usual
from triton_ensemble.step import StepError
from triton_ensemble.step.manifests import Served
from triton_ensemble.testing.ask import answer, ask, tensors
from triton_ensemble.testing.fake_triton import END, START
from triton_ensemble.testing.files import Sample, read

TIMEOUT_S = 60
SEQUENCE = 1  # the id of a sample whose rows are one
Configs = Mapping[str, Any]


def sample_of_file(project: Project, step: Served, path: Path) -> Sample:
    """Read a request of the pipeline, or of the model that serves a step, from a file.

    Raise ValueError if it is neither.
    """
    config = model_configs(project.repository)[step.model]

    def convert(arrays: Arrays) -> Arrays:
        types = {tensor.name: _find_numpy_type(tensor) for tensor in config.input}
        if types.keys() != arrays.keys():
            of_the_pipeline: Arrays = package(project, "runtime.batches").arrays(arrays)
            return of_the_pipeline
        return {name: array.astype(types[name]) for name, array in arrays.items()}

    return read(path, convert)


def _find_numpy_type(tensor: Any) -> Any:
    name = type_name(tensor)
    return triton_to_np_dtype("BYTES" if name == "STRING" else name)


class Upstream:
    """The inputs of a step, and answers of the models that it calls, inside a `with` block.

    `own` is whether the sample is a request of the step's model itself.
    A server is asked only if the step needs it: the environment's, a running one, or a new one.
    """

    def __init__(self, project: Project, step: Served, sample: Sample) -> None:
        self._project, self._step = project, step
        self._configs = model_configs(project.repository)
        most = 0 if project.sequential else package(project, "tensors").MAX_BATCH_SIZE
        self._inputs = _few_enough(sample.inputs, most)
        self.own = self.is_whole(sample.inputs)
        self._client: Any = None
        self._stack = ExitStack()

    def __enter__(self) -> Upstream:
        calls = [model["name"] for model in self._step.parts[-1]["calls"].values()]
        before = (
            ()
            if self.own
            else _iter_models_before(self._configs, self._project.ensemble, self._step.model)
        )
        if models := _list_loaded(self._project, [*before, *calls]):
            self._client = self._stack.enter_context(self._connect(models))
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)

    def _connect(self, models: list[str]) -> Any:
        """Return a client of a server that has the models."""
        if url := os.environ.get("TRITON_GRPC_URL") or os.environ.get("TRITON_URL"):
            return grpc.InferenceServerClient(
                grpc_target(url), ssl=url.startswith(("https", "grpcs"))
            )
        running = grpc.InferenceServerClient(grpc_target("grpc://127.0.0.1"))
        if _has(running, models):
            port = usual("grpc")
            then = "its models are as they were when it loaded them"
            print(f"asks the Triton at port {port}, {server_at(port)}; {then}")
            return running
        running.close()
        print(f"Starting a local Triton with {', '.join(models)} ...", flush=True)
        args = ["--model-control-mode=explicit", *(f"--load-model={name}" for name in models)]
        local = LocalTriton(self._project.repository, models[-1], server_args=args)
        return grpc.InferenceServerClient(grpc_target(self._stack.enter_context(local).grpc_url))

    def tensors(self) -> Arrays:
        """Return the inputs of the step's model, as a request has them.

        Raise StepError if nothing in the pipeline leads to them.
        """
        if self.own:
            return self._inputs
        requests = split_requests(self._project, self._inputs)
        given = (self._find_reaching(self._project.ensemble, *request) for request in requests)
        found = [each for each in given if each is not None]
        if not found:
            names = ", ".join(sorted(_names(self._configs[self._step.model].input)))
            raise StepError(
                f"step {self._step.name}: only other steps call it; write SAMPLE=file.json with {names}"
            )
        try:
            return {name: np.concatenate([each[name] for each in found]) for name in found[0]}
        except ValueError:
            what = "the rows of the sample reach it in different shapes; choose a sample of one row"
            raise StepError(f"step {self._step.name}: {what}") from None

    def is_whole(self, tensors: Arrays) -> bool:
        """Return whether these are all inputs of the step's model, optional ones too."""
        return tensors.keys() == _names(self._configs[self._step.model].input)

    def select_inputs(self, tensors: Arrays) -> Arrays:
        """Return the inputs of the step's model as it sees them."""
        return _reshape(self._configs[self._step.model], tensors)

    def _find_reaching(self, model: str, inputs: Arrays, flags: int) -> Arrays | None:
        """Return what reaches the step's model if `model` is asked, or None if that does not lead to it."""
        config = self._configs[model]
        if model == self._step.model:
            return inputs
        tensors = _reshape(config, inputs)
        path = _path(self._configs, model, self._step.model)
        for called in path:
            given = {
                own: tensors[name] for own, name in called.input_map.items() if name in tensors
            }
            if called is path[-1]:
                return self._find_reaching(called.model_name, given, flags)
            outputs = self.call(called.model_name, given, SEQUENCE, flags)
            tensors |= {
                name: outputs[own] for own, name in called.output_map.items() if own in outputs
            }
        return None

    def call(self, model: str, inputs: Arrays, sequence: int | str, flags: int) -> Arrays:
        """Return a model's answer, the first of a decoupled one, or raise RuntimeError if it refuses or fails."""
        config = self._configs[model]
        position: dict[str, Any] = {}
        if config.HasField("sequence_batching"):
            start, end = bool(flags & START), bool(flags & END)
            position = {"sequence_id": sequence, "sequence_start": start, "sequence_end": end}
        asked = _take_first if config.model_transaction_policy.decoupled else ask
        try:
            return asked(self._client, model, inputs, client_timeout=TIMEOUT_S, **position)
        except InferenceServerException as error:
            text = " ".join(str(error.message()).split())
            raise StepError(f"{model}, which runs before, has no answer: {text}") from None


def split_requests(project: Project, inputs: Arrays) -> Iterator[tuple[Arrays, int]]:
    """Yield a request with all rows or, if they are one sequence, with each row in order, and its flags."""
    for row, start, end in split_sequence(project, inputs):
        yield row, START * start | END * end


def _take_first(
    client: Any, model: str, inputs: Arrays, client_timeout: int, **position: Any
) -> Arrays:
    """Return the first answer of a decoupled model."""
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)), client_timeout)
    try:
        client.async_stream_infer(model, tensors(inputs), **position)
        result, error = answers.get(timeout=client_timeout)
    except queue.Empty:
        error = InferenceServerException(f"none within {client_timeout} s")
    finally:
        client.stop_stream(cancel_requests=True)
    if error:
        raise error
    return answer(result)


def _iter_models_before(configs: Configs, model: str, wanted: str) -> Iterator[str]:
    """Yield the models that must be asked before what reaches `wanted` is known."""
    if model != wanted:
        for called in (path := _path(configs, model, wanted)):
            if called is path[-1]:
                yield from _iter_models_before(configs, called.model_name, wanted)
            else:
                yield called.model_name


def _list_loaded(project: Project, models: list[str]) -> list[str]:
    """Return models and the models that their steps call, each once.

    Triton itself loads what an ensemble needs.
    """
    called = list_called_models(project.repository)
    for model in models:  # grows meanwhile
        models += [name for name in called.get(model, []) if name not in models]
    return list(dict.fromkeys(models))


def _path(configs: Configs, ensemble: str, wanted: str) -> list[Any]:
    """Return the steps of an ensemble that lead to a model, in the order of the data.

    The step with the model is the last. The list is empty if no step has the model.
    """
    steps = list(configs[ensemble].ensemble_scheduling.step)
    last = next((step for step in steps if _leads_to(configs, step.model_name, wanted)), None)
    path: list[Any] = []
    needed = [last] if last else []
    while needed:
        step = needed.pop(0)
        path = [step, *(other for other in path if other is not step)]
        reads = {*step.input_map.values()}
        needed += [other for other in steps if reads & {*other.output_map.values()}]
    return path


def _leads_to(configs: Configs, model: str, wanted: str) -> bool:
    inner = configs[model].ensemble_scheduling.step
    return model == wanted or any(_leads_to(configs, step.model_name, wanted) for step in inner)


def _reshape(config: Any, arrays: Arrays) -> Arrays:
    """Return inputs of a model as it sees them: `reshape` in its config says how."""
    seen = dict(arrays)
    for tensor in config.input:
        if tensor.HasField("reshape") and tensor.name in seen:
            array, first = seen[tensor.name], int(config.max_batch_size > 0)
            open_dims = (
                n for n, dim in zip(array.shape[first:], tensor.dims, strict=True) if dim < 0
            )
            shape = [next(open_dims) if dim < 0 else dim for dim in tensor.reshape.shape]
            seen[tensor.name] = array.reshape([*array.shape[:first], *shape])
    return seen


def _few_enough(inputs: Arrays, max_batch_size: int) -> Arrays:
    return {n: array[:max_batch_size] for n, array in inputs.items()} if max_batch_size else inputs


def _names(tensors: Any) -> set[str]:
    return {tensor.name for tensor in tensors}


def _has(client: Any, models: list[str]) -> bool:
    try:
        return all(client.is_model_ready(model, client_timeout=2) for model in models)
    except InferenceServerException:
        return False
