"""Steps that share a model: called one after the other in its process, as if each had a model of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Any, NamedTuple

from triton_step import SequencePosition

from .arrays import NumpyArrays
from .calls import Answered
from .seams import Array, ModelConfig, StepManifest, TensorConfig
from .user_step import Inputs, Returned, StepFailure, UserStep, rows_of


class Part(NamedTuple):
    """A step, the pipeline's tensors that are its inputs, in order, and its outputs."""

    step: UserStep
    reads: list[str | None]  # None: an optional input that nothing feeds
    writes: list[tuple[str, str]]
    keep: Callable[[Array], Array]  # what an output becomes for the steps that read it


class FusedSteps:
    """Several steps that look like one to the adapter, with the inputs and outputs of the model."""

    def __init__(
        self,
        manifests: list[StepManifest],
        args: Mapping[str, str],
        config: ModelConfig,
        arrays: NumpyArrays,
        answered: Answered,
    ) -> None:
        self._batched = config["max_batch_size"] > 0
        self._inputs = [tensor["name"] for tensor in config["input"]]
        self._outputs = [tensor["name"] for tensor in config["output"]]
        self._lend = arrays.lend
        reads = Counter(name for given in manifests for name in tensors_of(given["input"]).values())
        # An array that one step reads, and nothing else keeps, needs no copy.
        self._shared = {name for name, readers in reads.items() if readers > 1}
        self._shared |= {*self._inputs, *self._outputs}
        threads = threads_of(config)
        steps = [
            UserStep(
                {**given, "threads": threads}, args, config_of(given, config), arrays, answered
            )
            for given in manifests
        ]
        last = steps[-1]
        self.name, self.logger = last.name, last.logger
        self.rejected, self.failed = last.rejected, last.failed
        self.asynchronous = any(step.asynchronous for step in steps)

        def copy(array: Array) -> Array:
            """Copy an array: while one request waits, a step may use its array again for another."""
            return arrays.copy(arrays.keep(array))

        keep = copy if self.asynchronous else arrays.keep
        self._parts = [
            Part(
                step,
                list(map(tensors_of(given["input"]).get, given["arguments"].values())),
                list(tensors_of(given["output"]).items()),
                keep if step is not last else lambda array: array,
            )
            for step, given in zip(steps, manifests, strict=True)
        ]

    def start(self, inputs: Inputs, first: tuple[SequencePosition, ...] = ()) -> Returned:
        """Return the checked outputs, or an awaitable of them if a step is async."""
        walk = self._walk(inputs)
        if self.asynchronous:
            return walk
        try:
            walk.send(None)  # awaits nothing, so it goes to its end
        except StopIteration as end:
            return end.value

    async def _walk(self, inputs: Inputs) -> dict[str, Array]:
        tensors: dict[str | None, Any] = dict(zip(self._inputs, inputs, strict=True))
        rows = rows_of(inputs) if self._batched else None
        lend, shared, get, begin = self._lend, self._shared, tensors.get, perf_counter()
        for step, reads, writes, keep in self._parts:
            given = [get(name) for name in reads]
            try:
                if lend:
                    pairs = zip(reads, given, strict=True)
                    given = [lend(array) if name in shared else array for name, array in pairs]
                returned = step.start(given)
                outputs = step.check_outputs(
                    await returned if step.asynchronous else returned, rows
                )
                tensors.update({n: keep(outputs[own]) for own, n in writes if own in outputs})
            except BaseException as error:
                raise StepFailure(step) from error
            finally:
                end = perf_counter()
                step.count(end - begin)
                begin = end
        return {name: tensors[name] for name in self._outputs if name in tensors}

    def check_outputs(self, outputs: Mapping[str, Array], rows: int | None) -> Mapping[str, Array]:
        """Return the outputs as they are: each step's are checked already."""
        return outputs

    def count(self, seconds: float) -> None:
        """Do nothing: each step counts its own calls."""


def config_of(part: StepManifest, config: ModelConfig) -> ModelConfig:
    """Return the config that the model would have if it had only this step."""
    return {
        **config,
        "input": part["input"],
        "output": part["output"],
        "parameters": part["parameters"],
    }


def tensors_of(bindings: Iterable[TensorConfig]) -> dict[str, str]:
    """Return the pipeline's tensors by the step's names for them."""
    return {each["name"]: each["tensor"] for each in bindings if each["tensor"] is not None}


def threads_of(config: ModelConfig) -> int:
    """Return the threads of an ONNX step, as if it had its own model: 1 if there are several instances, otherwise 0, one a core."""
    return 1 if sum(group["count"] for group in config["instance_group"]) > 1 else 0
