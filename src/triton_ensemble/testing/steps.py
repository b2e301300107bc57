"""Helpers of unit tests of steps: models that stand for those a step calls, and first outputs of any kind of step."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Awaitable, Generator, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from triton_ensemble.adapter.seams import read_manifest
from triton_ensemble.facts.client import Array
from triton_ensemble.facts.config.message import ModelConfig, type_name
from triton_ensemble.facts.config.repository import model_config
from triton_ensemble.testing import under_test
from triton_ensemble.testing.python_model import NUMPY_TYPES


def first_response(returned: Any) -> Any:
    """Return the outputs that a step's call returns: those of its first response if it has many, awaited if it is async."""
    if hasattr(returned, "__anext__"):
        returned = anext(returned)
    if hasattr(returned, "__await__"):
        return asyncio.run(_wait(returned))
    return next(returned) if hasattr(returned, "__next__") else returned


async def _wait(returned: Awaitable[Any]) -> Any:
    return await returned


def blank_calls(module: str) -> SimpleNamespace:
    """Return models for `Context(calls=...)` of steps/MODULE.py: they answer any request with zeros and empty texts."""
    project = under_test.PROJECT
    manifests = (read_manifest(project.repository / path)[0] for path in project.step_modules)
    steps = (
        (step["calls"], manifest["arrays"])
        for manifest in manifests
        for step in manifest["steps"]
        if step.get("module") == module
    )
    calls, arrays = next(steps)
    configs = {name: model_config(project.repository, each["name"]) for name, each in calls.items()}
    return SimpleNamespace(**{name: partial(_call, each, arrays) for name, each in configs.items()})


class Outputs(dict[str, Any]):
    """Outputs by name, which an async step awaits."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # for `asyncio.gather`

    def __await__(self) -> Generator[None, None, Outputs]:
        return self
        yield


class Responses:
    """The only response of a decoupled model, for steps of both kinds."""

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs

    def __iter__(self) -> Iterator[Outputs]:
        yield self._outputs

    async def __aiter__(self) -> AsyncIterator[Outputs]:
        yield self._outputs


def _call(config: ModelConfig, arrays: str, *_: object, **inputs: Any) -> Outputs | Responses:
    given = (len(array) for array in inputs.values() if getattr(array, "shape", ()))
    batch = [next(given, 1)] * (config.max_batch_size > 0)
    outputs = Outputs({each.name: _blank(each, batch, arrays) for each in config.output})
    return Responses(outputs) if config.model_transaction_policy.decoupled else outputs


def _blank(tensor: Any, batch: list[int], arrays: str) -> Array:
    shape, kind = batch + [abs(dim) for dim in tensor.dims], type_name(tensor)
    if kind == "STRING":
        return np.full(shape, b"", np.object_)
    zeros = np.zeros(shape, NUMPY_TYPES.get(kind, kind.lower()))
    blank: Array = importlib.import_module(arrays).asarray(zeros)
    return blank
