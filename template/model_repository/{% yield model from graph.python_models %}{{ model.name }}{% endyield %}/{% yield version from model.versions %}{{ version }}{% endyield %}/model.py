# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Serves a Python step in Triton: one call of the step for the rows of several requests, and an answer or an error for each request.

The same file in each Python model. What it serves stands in `step.json`, names and types in the config that Triton hands over.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from numpy.typing import NDArray

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # before whatever else is called `steps`

from triton_step import Context, InvalidRequest  # noqa: E402

Arrays = dict[str, NDArray[Any]]


class StepError(RuntimeError):
    """A step broke its contract; the text names the step and the tensor and may go to clients."""


class TritonHandler(logging.Handler):
    """Hands log records to Triton's log."""

    def emit(self, record: logging.LogRecord) -> None:
        text, logger = self.format(record), pb_utils.Logger
        if record.levelno >= logging.ERROR:
            logger.log_error(text)
        elif record.levelno >= logging.WARNING:
            logger.log_warn(text)
        else:
            logger.log_info(text)


def step_logger(name: str) -> logging.Logger:
    logger = logging.getLogger(name)
    logger.handlers, logger.propagate = [TritonHandler()], False
    logger.setLevel(logging.INFO)
    return logger


def triton_device(args: Mapping[str, str]) -> str:
    return (
        f"cuda:{args['model_instance_device_id']}"
        if args["model_instance_kind"] == "GPU"
        else "cpu"
    )


class Output:
    """What a step must return for one of its outputs, as the model's config declares it."""

    def __init__(self, config: Mapping[str, Any], batched: bool) -> None:
        self.name: str = config["name"]
        self.dims = [-1] * batched + [int(dim) for dim in config["dims"]]
        self.dtype = np.dtype(pb_utils.triton_string_to_numpy(config["data_type"]))

    def check(self, value: object, rows: int | None) -> NDArray[Any]:
        """The value as Triton takes it; raises StepError, because Triton itself checks neither type nor shape."""
        if not isinstance(value, np.ndarray):
            raise StepError(
                f"returned {type(value).__name__} for {self.name}; return a NumPy array"
            )
        if value.dtype != self.dtype:
            raise StepError(
                f"returned {value.dtype} for {self.name}, which is {self.dtype}; convert it with astype"
            )
        want = [rows, *self.dims[1:]] if rows is not None else self.dims
        if len(want) != value.ndim or any(
            w not in (-1, have) for w, have in zip(want, value.shape, strict=True)
        ):
            raise StepError(
                f"returned the shape {list(value.shape)} for {self.name}, which has {want}"
            )
        return value


class Step:
    """A step of the user, between the model's tensors and its own arguments."""

    def __init__(self, manifest: Mapping[str, Any], context: Context) -> None:
        self.name: str = manifest["name"]
        self._arguments: dict[str, str] = manifest["arguments"]
        self._call = importlib.import_module(f"steps.{manifest['module']}").Step(context)

    def __call__(self, inputs: Mapping[str, NDArray[Any] | None]) -> Mapping[str, object]:
        returned = self._call(
            **{argument: inputs[name] for argument, name in self._arguments.items()}
        )
        if not isinstance(returned, Mapping):
            raise StepError(
                f"returned {type(returned).__name__}; return a mapping from output names to arrays"
            )
        return returned


def concatenated(
    batches: Sequence[Mapping[str, NDArray[Any] | None]],
) -> dict[str, NDArray[Any] | None]:
    """The rows of all batches, tensor by tensor; absent optional inputs stay None."""
    if len(batches) == 1:
        return dict(batches[0])
    joined: dict[str, NDArray[Any] | None] = {}
    for name, first in batches[0].items():
        joined[name] = (
            None
            if first is None
            else np.concatenate([np.asarray(batch[name]) for batch in batches])
        )
    return joined


class TritonPythonModel:
    """What Triton's Python backend loads, one object for each instance."""

    def initialize(self, args: Mapping[str, str]) -> None:
        config = json.loads(args["model_config"])
        manifest = json.loads((HERE / "step.json").read_text())
        parameters = {key: value["string_value"] for key, value in config["parameters"].items()}
        self._logger = step_logger(manifest["name"])
        self._batched = config["max_batch_size"] > 0
        self._inputs = [tensor["name"] for tensor in config["input"]]
        self._outputs = [Output(tensor, self._batched) for tensor in config["output"]]
        self._step = Step(manifest, Context(parameters, HERE, triton_device(args), self._logger))

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        responses: dict[int, Any] = {}
        groups: dict[tuple[object, ...], list[int]] = {}
        inputs = [self._read(request) for request in requests]
        for i, request in enumerate(requests):
            if request.is_cancelled():
                responses[i] = self._failure("cancelled", pb_utils.TritonError.CANCELLED)
            else:
                groups.setdefault(self._group(inputs[i], i), []).append(i)
        for members in groups.values():
            results = self._run([inputs[i] for i in members])
            responses.update(
                (i, self._response(requests[i], result))
                for i, result in zip(members, results, strict=True)
            )
        return [responses[i] for i in range(len(requests))]

    def _read(self, request: Any) -> dict[str, NDArray[Any] | None]:
        arrays: dict[str, NDArray[Any] | None] = {}
        for name in self._inputs:
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            arrays[name] = None if tensor is None else tensor.as_numpy()
        return arrays

    def _group(self, inputs: Mapping[str, NDArray[Any] | None], alone: int) -> tuple[object, ...]:
        """Requests of equal row shapes share a call; without a batch dimension each has its own."""
        if not self._batched:
            return (alone,)
        return tuple(None if array is None else array.shape[1:] for array in inputs.values())

    def _run(
        self, batches: Sequence[Mapping[str, NDArray[Any] | None]]
    ) -> list[Arrays | Exception]:
        """The outputs of each batch, or what went wrong with it; a failing call is made again for each batch alone."""
        try:
            return self._split(self._called(concatenated(batches)), batches)
        except Exception as error:
            if len(batches) == 1:
                return [error]
            return [self._run([batch])[0] for batch in batches]

    def _called(self, inputs: Mapping[str, NDArray[Any] | None]) -> Arrays:
        for array in inputs.values():
            if array is not None:
                array.flags.writeable = False  # it may be the memory that other steps read
        rows = (
            next(len(array) for array in inputs.values() if array is not None)
            if self._batched
            else None
        )
        returned = self._step(inputs)
        for name in returned.keys() - {output.name for output in self._outputs}:
            raise StepError(f"returned {name}, which is none of its outputs")
        for output in self._outputs:
            if output.name not in returned:
                raise StepError(f"returned no {output.name}")
        return {output.name: output.check(returned[output.name], rows) for output in self._outputs}

    def _split(
        self, outputs: Arrays, batches: Sequence[Mapping[str, NDArray[Any] | None]]
    ) -> list[Arrays | Exception]:
        if len(batches) == 1:
            return [outputs]
        rows = [
            next(len(array) for array in batch.values() if array is not None) for batch in batches
        ]
        ends = np.cumsum(rows).tolist()
        return [
            {name: array[end - count : end] for name, array in outputs.items()}
            for count, end in zip(rows, ends, strict=True)
        ]

    def _response(self, request: Any, result: Arrays | Exception) -> Any:
        if isinstance(result, InvalidRequest):
            return self._failure(
                f"step {self._step.name}: {result}", pb_utils.TritonError.INVALID_ARG
            )
        if isinstance(result, StepError):
            return self._failure(f"step {self._step.name}: {result}", pb_utils.TritonError.INTERNAL)
        if isinstance(result, Exception):
            # Its text and traceback may hold paths and data: they are for the log, not for clients.
            self._logger.error("step %s failed", self._step.name, exc_info=result)
            return self._failure(
                f"step {self._step.name} failed; the server's log says why",
                pb_utils.TritonError.INTERNAL,
            )
        wanted = request.requested_output_names()
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, result[name]) for name in result if name in wanted]
        )

    def _failure(self, text: str, code: int) -> Any:
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(text, code))
