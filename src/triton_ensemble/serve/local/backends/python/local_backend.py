"""The common part of the local backends: batches from Triton's requests, responses from their results.

It is in the folder of the Python backend because Triton has that on the import path.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
Tensors = Mapping[str, tuple[str, Sequence[int]]]  # type and shape by name

FORGOTTEN_S = 60  # how much longer than Triton a state is kept: a request may have waited


class LocalBackend(ABC):
    """A Python-based backend of Triton, whose subclasses load a model file and run it."""

    default_filename = ""

    @abstractmethod
    def load(self, file: Path) -> None:
        """Load the model file, or raise ValueError if it does not have what `self.config` declares."""

    @abstractmethod
    def run(self, inputs: Arrays, outputs: Sequence[str]) -> Arrays:
        """Return the named outputs of a batch, or raise ValueError for an input that is wrong."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the one model of this instance. `args` comes from Triton."""
        self.config: dict[str, Any] = json.loads(args["model_config"])
        self.batches: bool = self.config["max_batch_size"] > 0
        self.on_gpu = args["model_instance_kind"] == "GPU"
        self.device_id = int(args["model_instance_device_id"])
        self.instances = sum(group["count"] for group in self.config["instance_group"])
        transactions = self.config.get("model_transaction_policy", {})
        self.decoupled: bool = transactions.get("decoupled", False)
        self.tensors = {spec["name"]: spec for spec in self._tensors()}
        self.states = States(self.config.get("sequence_batching", {}))
        self.load(self.find(Path(args["model_repository"], args["model_version"])))

    def find(self, version: Path) -> Path:
        """Return the model file in a version folder, or raise ValueError if it is missing."""
        field = "default_model_filename"
        name = self.parameter(field) or self.config[field] or self.default_filename
        if not (version / name).exists():
            raise ValueError(f"there is no model file {version.name}/{name}")
        return version / name

    def warn_without_cuda(self, package: str) -> None:
        """Log that instances for a GPU run on the CPU, which `make serve` prints."""
        text = f"this {package} has no CUDA, so its GPU instances run on the CPU; see README.md"
        pb_utils.Logger.log_warn(f"{self.config['name']}: {text}")

    def parameter(self, name: str) -> str | None:
        """Return the value of a parameter in the model's config."""
        value: str | None = self.config["parameters"].get(name, {}).get("string_value")
        return value

    def compare(
        self, kind: str, required: Tensors, defaults: Tensors = MappingProxyType({})
    ) -> None:
        """Refuse, as the real backend does, names, types and dims that the model does not have.

        `kind` is "input" or "output". `required` has the model's own type and shape of each tensor, and `defaults` has them
        for inputs that a request may leave out.
        """
        actual = {**required, **defaults}
        for spec in self.config[kind]:
            name = spec["name"]
            if name not in actual:
                raise ValueError(f"the graph has no {kind} {name}; it has {', '.join(actual)}")
            data_type, shape = actual[name]
            if data_type != spec["data_type"]:
                raise ValueError(
                    f"{kind} {name} is {data_type} in the graph, not {spec['data_type']}"
                )
            self._compare_dims(f"{kind} {name}", list(shape), spec)
        if kind == "input":
            self._compare_names(required.keys())

    def _compare_names(self, graph: Set[str]) -> None:
        """Raise ValueError unless all inputs of the graph are fed, and the graph has the inputs that Triton adds."""
        fed = {*self.controls, *(spec["name"] for spec in self.config["input"])}
        if missing := [name for name in graph if name not in fed]:
            raise ValueError(f"config.pbtxt lacks input {', '.join(missing)} of the graph")
        if missing := [name for name in self.controls if name not in graph]:
            raise ValueError(f"the graph has no input {', '.join(missing)} of sequence_batching")

    def _compare_dims(self, what: str, actual: list[int], spec: Mapping[str, Any]) -> None:
        if self.parameter("undeclared"):  # then the container takes the dims from the file
            return
        declared = [-1] * self.batches + model_dims(spec)
        fits = len(actual) == len(declared) and all(
            a in (-1, d) for a, d in zip(actual, declared, strict=True)
        )
        if not fits:
            batch = " (the first is the batch)" if self.batches else ""
            raise ValueError(f"{what} has dims {actual} in the graph, not {declared}{batch}")

    @property
    def controls(self) -> list[str]:
        """The inputs that Triton itself adds to the requests of a sequence."""
        sequence = self.config.get("sequence_batching", {})
        controls = [control["name"] for control in sequence.get("control_input", [])]
        return [*controls, *self.states.names.values()]

    def execute(self, requests: Sequence[Any]) -> list[Any] | None:
        """Answer each request. Requests whose shapes agree run as one batch."""
        responses = self._responses(requests)
        if not self.decoupled:
            return responses
        for request, response in zip(requests, responses, strict=True):
            final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
            request.get_response_sender().send(response, flags=final)
        return None

    def _responses(self, requests: Sequence[Any]) -> list[Any]:
        groups: dict[object, list[int]] = {}
        arrays: dict[int, Arrays] = {}
        responses: dict[int, Any] = {}
        for index, request in enumerate(requests):
            if self._has_bf16(request):
                text = "the local Triton loads models with BF16 tensors but can't run them"
                responses[index] = self._failure(ValueError(text))
                continue
            arrays[index] = {**_arrays(request), **self.states.recall(request)}
            groups.setdefault(self._group(index, request, arrays[index]), []).append(index)
        for members in groups.values():
            outputs = requests[members[0]].requested_output_names()
            answers = self._answer([(requests[i], arrays[i]) for i in members], outputs)
            responses.update(zip(members, answers, strict=True))
        return [responses[index] for index in range(len(requests))]

    def _has_bf16(self, request: Any) -> bool:
        """Return whether a request sends or asks for a BF16 tensor.

        The model may have BF16 tensors that the request does not use.
        """
        names = [*(tensor.name() for tensor in request.inputs()), *request.requested_output_names()]
        return "TYPE_BF16" in {
            self.tensors[name]["data_type"] for name in names if name in self.tensors
        }

    def _tensors(self) -> Iterator[dict[str, Any]]:
        yield from self.config["input"]
        yield from self.config["output"]

    def _group(self, index: int, request: Any, arrays: Arrays) -> object:
        if not self.batches:
            return index
        shapes = tuple((name, array.shape[1:]) for name, array in sorted(arrays.items()))
        return shapes, tuple(sorted(request.requested_output_names()))

    def _answer(self, group: Sequence[tuple[Any, Arrays]], outputs: Sequence[str]) -> list[Any]:
        try:
            parts = self._run([arrays for _, arrays in group], outputs)
        except Exception as error:
            if len(group) > 1:  # only the request that fails shall fail
                return [self._answer([each], outputs)[0] for each in group]
            return [self._failure(error)]
        for (request, _), part in zip(group, parts, strict=True):
            self.states.keep(request, part)
        return [_response({name: part[name] for name in outputs}) for part in parts]

    def _run(self, group: Sequence[Arrays], outputs: Sequence[str]) -> list[Arrays]:
        rows = [len(next(iter(arrays.values()), [None])) for arrays in group]
        inputs = {name: _concatenate([arrays[name] for arrays in group]) for name in group[0]}
        outputs = [*dict.fromkeys([*outputs, *self.states.names])]
        results = self.run(inputs, outputs)
        for name in outputs:
            self._check(name, results[name], sum(rows))
        if len(group) == 1:
            return [results]
        split = {name: np.split(results[name], np.cumsum(rows)[:-1]) for name in outputs}
        return [{name: parts[i] for name, parts in split.items()} for i in range(len(group))]

    def _check(self, name: str, array: NDArray[Any], rows: int) -> None:
        """Check a result: Triton itself accepts anything from a Python-based backend."""
        data_type = (self.tensors.get(name) or self.states.specs[name])["data_type"]
        if array.dtype != pb_utils.triton_string_to_numpy(data_type):
            raise RuntimeError(f"output {name} is {array.dtype}, config.pbtxt says {data_type}")
        if self.batches and array.shape[:1] != (rows,):
            raise RuntimeError(f"output {name} has shape {array.shape} for a batch of {rows}")

    def _failure(self, error: Exception) -> Any:
        pb_utils.Logger.log_error(f"model {self.config['name']}: {error!r}")
        # The text of a runtime may name files of the server, which is not a client's business.
        text = str(error).partition("\n")[0]
        reason = "the server's log has the reason" if "/" in text else text
        code = (
            pb_utils.TritonError.INVALID_ARG
            if isinstance(error, ValueError)
            else pb_utils.TritonError.INTERNAL
        )
        message = f"model {self.config['name']} failed: {reason}"
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))


class States:
    """The tensors that a request of a sequence hands to the next one: Triton keeps none for a Python-based backend.

    Triton itself gives the initial ones to each request.
    """

    def __init__(self, sequence_batching: Mapping[str, Any]) -> None:
        self.specs = {spec["output_name"]: spec for spec in sequence_batching.get("state", [])}
        self.names = {name: spec["input_name"] for name, spec in self.specs.items()}
        idle_us = int(sequence_batching.get("max_sequence_idle_microseconds", 0))
        self._kept_s = idle_us / 1e6 + FORGOTTEN_S
        self._kept: dict[int | str, tuple[float, Arrays]] = {}  # in the order of their last use

    def recall(self, request: Any) -> Arrays:
        """Return the tensors that the last request of the sequence left, by the inputs' names."""
        if not self.names:
            return {}
        if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
            self._kept.pop(request.correlation_id(), None)
        return self._kept.get(request.correlation_id(), (0, {}))[1]

    def keep(self, request: Any, outputs: Arrays) -> None:
        """Keep the tensors for the next request of the sequence, if there is one."""
        if not self.names:
            return
        now, sequence = time.monotonic(), request.correlation_id()
        self._kept.pop(sequence, None)
        if not request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END:
            states = {given: outputs[name] for name, given in self.names.items()}
            self._kept[sequence] = now, states
        while self._kept and now - next(iter(self._kept.values()))[0] > self._kept_s:
            del self._kept[next(iter(self._kept))]


def model_dims(spec: Mapping[str, Any]) -> list[int]:
    """Return the dims of a tensor as the model itself sees it, without the batch dimension."""
    dims: list[int] = spec["reshape"]["shape"] if "reshape" in spec else spec["dims"]
    return list(map(int, dims))


def _arrays(request: Any) -> Arrays:
    return {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}


def _concatenate(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _response(outputs: Arrays) -> Any:
    tensors = [
        pb_utils.Tensor(name, np.ascontiguousarray(array)) for name, array in outputs.items()
    ]
    return pb_utils.InferenceResponse(tensors)
