"""The user's step, between the tensors of the model and its own arguments."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from logging import Logger
from typing import Any, Protocol, TypeAlias

import numpy as np

from triton_step import Counter, SequencePosition

from .arrays import NumpyArrays, Output, StepError
from .calls import Answered, AsyncCall, Call
from .context import step_context
from .seams import Array, ModelConfig, StepManifest

Inputs = list[Array | None]  # in the order of the step's arguments; an optional one may be None
Returned: TypeAlias = Any  # by the owner's code: a mapping, an awaitable of one, or an iterator


class StepFailure(Exception):
    """One step of several that share a model has raised the error that is the cause."""

    def __init__(self, step: UserStep) -> None:
        super().__init__(step.name)
        self.step = step


class Served(Protocol):
    """A step, or several that share a model, as the code that answers requests sees them."""

    name: str
    logger: Logger
    rejected: Counter
    failed: Counter
    asynchronous: bool

    def start(self, inputs: Inputs, first: tuple[SequencePosition, ...] = ()) -> Returned: ...
    def check_outputs(self, returned: Returned, rows: int | None) -> Mapping[str, Array]: ...
    def count(self, seconds: float) -> None: ...


def rows_of(inputs: Inputs) -> int | None:
    """Return the number of rows, or None without an input to count."""
    for array in inputs:
        if array is not None:
            return len(array)
    return None


def step_class(manifest: StepManifest) -> Any:
    """Return the class Step of steps/MODULE.py, or for an ONNX step the adapter's own class."""
    if "file" in manifest:
        return partial(importlib.import_module(".onnx", __package__).OnnxStep, manifest)
    return importlib.import_module(f"steps.{manifest['module']}").Step


class UserStep:
    """Calls a step, and checks what it returns."""

    def __init__(
        self,
        manifest: StepManifest,
        args: Mapping[str, str],
        config: ModelConfig,
        arrays: NumpyArrays,
        answered: Answered,
    ) -> None:
        user = step_class(manifest)
        method = vars(user).get("__call__")
        self.asynchronous = inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(
            method
        )
        call = AsyncCall if self.asynchronous else Call
        context = step_context(manifest, args, config, arrays, answered, call)
        counter = context.metrics.counter
        self.name = manifest["name"]
        self.logger = context.logger
        self.rejected = counter("step_rejected_total", "Requests that the step called invalid")
        self.failed = counter("step_failed_total", "Requests that the step failed on")
        self._seconds = counter("step_seconds_total", "Seconds spent on the step")
        self._calls = counter("step_calls_total", "Calls of the step")
        self._arguments = list(manifest["arguments"])
        self._results = manifest["results"]
        batched = config["max_batch_size"] > 0
        self._outputs = {
            tensor["name"]: Output(tensor, batched, arrays) for tensor in config["output"]
        }
        self._optional = frozenset(manifest.get("optional", ()))
        self._call = user(context)
        self._check_signature([None] * ("sequence_batching" in config))

    def _check_signature(self, first: Sequence[None]) -> None:
        if not callable(self._call):
            raise StepError(f"step {self.name}: class Step has no method __call__")
        try:
            inspect.signature(self._call).bind(*first, **dict.fromkeys(self._arguments))
        except TypeError as error:
            raise StepError(f"step {self.name}: Step.__call__: {error}") from None

    def start(self, inputs: Inputs, first: tuple[SequencePosition, ...] = ()) -> Returned:
        """Call the step, and return its mapping or an awaitable of one."""
        for array in inputs:
            if type(array) is np.ndarray:  # a view of memory that other steps may read too
                array.setflags(write=False)
        return self._call(*first, **dict(zip(self._arguments, inputs, strict=True)))

    def count(self, seconds: float, calls: int = 1) -> None:
        self._seconds.value += seconds
        self._calls.value += calls

    def check_outputs(self, returned: object, rows: int | None) -> Mapping[str, Array]:
        """Return the outputs by name, without those that are left out.

        Raise StepError if they differ from the config.
        """
        given: Mapping[str, Array] = returned if type(returned) is dict else self._mapping(returned)
        if self._optional:
            given = {n: a for n, a in given.items() if a is not None or n not in self._optional}
        if given.keys() | self._optional != self._outputs.keys():
            raise StepError(self._describe_difference(given))
        for name, value in given.items():
            output = self._outputs[name]
            if (
                type(value) is not output.plain
                or value.dtype is not output.dtype
                or value.shape != (rows, *output.dims)
            ):
                output.check(value, rows)
        return given

    def _describe_difference(self, given: Mapping[str, object]) -> str:
        missing = self._outputs.keys() - given.keys() - self._optional
        meant = f"did you mean {min(missing)}?" if len(missing) == 1 else ""
        for name in given.keys() - self._outputs.keys():
            known = meant or f"they are {', '.join(self._outputs)}"
            return f"returned {name}, which is not one of its outputs; {known}"
        return f"returned no {min(missing)}"

    def _mapping(self, returned: object) -> Mapping[str, Array]:
        if is_dataclass(returned):
            names = [field.name for field in fields(returned)]
            return {self._results.get(name, name): getattr(returned, name) for name in names}
        if not isinstance(returned, Mapping):
            raise StepError(
                f"returned {type(returned).__name__}; return a mapping from output names to arrays"
            )
        return returned
