"""Triton's Python backend as a model.py sees it, without Triton. harness.py runs it in a process of its own.

It takes the place of `triton_python_backend_utils`, with what the adapter uses of that and nothing more.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, TypeAlias

import numpy as np

from triton_ensemble.facts.client import Array, Arrays

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = END = 2
# A model's answer to inputs by name, for a sequence and the flags of its request; RuntimeError where there is none.
Call: TypeAlias = Callable[[str, Arrays, int | str, int], Arrays]
CONTROL_TYPES = {"fp32": "float32", "int32": "int32", "bool": "bool"}


class TritonError:
    """An error's text and code."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS = range(7)
    CANCELLED = 7

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        self._message, self.code = message, code

    def message(self) -> str:
        return self._message


class TritonModelException(Exception):
    """Raised by calls of Triton that fail."""


class Tensor:
    """A named array. Texts become bytes, as on their way through Triton."""

    def __init__(self, name: str, array: Array) -> None:
        self._name = name
        self._array = np.ascontiguousarray(array).reshape(array.shape)
        if array.dtype == object:
            self._array = _to_bytes(array)

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> Array:
        return self._array

    def is_cpu(self) -> bool:
        return True

    def to_dlpack(self) -> object:
        if self._array.dtype == object:
            raise TritonModelException("DLPack does not have support for string tensors.")
        return self._array.__dlpack__()

    @staticmethod
    def from_dlpack(name: str, array: Any) -> Tensor:
        return Tensor(name, np.from_dlpack(array).copy())


def _to_bytes(array: Array) -> Array:
    encoded = np.empty_like(array)
    for position, item in np.ndenumerate(array):
        encoded[position] = item if type(item) is bytes else str(item).encode()
    return encoded


class InferenceResponse:
    """A response: tensors, or an error."""

    def __init__(
        self, output_tensors: Iterable[Tensor] = (), error: TritonError | None = None
    ) -> None:
        self._tensors, self._error = list(output_tensors), error

    def output_tensors(self) -> list[Tensor]:
        return self._tensors

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> TritonError | None:
        return self._error


class ResponseSender:
    """The responses to a request of a decoupled model."""

    def __init__(self) -> None:
        self.sent: list[InferenceResponse] = []

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        self.sent += [response] if response else []

    def is_cancelled(self) -> bool:
        return False


def refuse_call(model: str, *_: object) -> Arrays:
    """Raise RuntimeError: what a step asks of another model, only a server can answer."""
    raise RuntimeError(f"{model} needs a server")


class InferenceRequest:
    """A request to the model, or a step's request to another model, which `call` answers."""

    call: ClassVar[Call] = staticmethod(refuse_call)

    def __init__(
        self,
        inputs: Iterable[Tensor] = (),
        model_name: str = "",
        correlation_id: int | str = 1,
        flags: int = START | END,
        **_: object,
    ) -> None:
        self._inputs, self._model = list(inputs), model_name
        self._sequence, self._flags = correlation_id, flags
        self.sender = ResponseSender()

    def inputs(self) -> list[Tensor]:
        return self._inputs

    def is_cancelled(self) -> bool:
        return False

    def flags(self) -> int:
        return self._flags

    def correlation_id(self) -> int | str:
        return self._sequence

    def timeout(self) -> int:
        return 0

    def get_response_sender(self) -> ResponseSender:
        return self.sender

    def exec(self, decoupled: bool = False) -> InferenceResponse | Iterator[InferenceResponse]:
        return iter([self._answer()]) if decoupled else self._answer()

    def _answer(self) -> InferenceResponse:
        arrays = {tensor.name(): tensor.as_numpy() for tensor in self._inputs}
        try:
            outputs = InferenceRequest.call(self._model, arrays, self._sequence, self._flags)
        except RuntimeError as error:
            return InferenceResponse(error=TritonError(str(error)))
        return InferenceResponse([Tensor(name, array) for name, array in outputs.items()])


class MetricFamily:
    """A metric that counts nothing."""

    COUNTER = 0

    def __init__(self, name: str, description: str, kind: int) -> None:
        self.name = name

    def Metric(self, labels: Mapping[str, str]) -> MetricFamily:
        return self

    def increment(self, amount: float) -> None:
        pass


class Logger:
    """Triton's log, which here is stderr."""

    @staticmethod
    def log_info(text: str) -> None:
        print(text, file=sys.stderr)

    log_warn = log_error = log_info


def load(folder: Path, config: str) -> Any:
    """Import the model of a version folder and initialize it."""
    sys.modules["triton_python_backend_utils"] = sys.modules[__name__]
    spec = importlib.util.spec_from_file_location("model", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["model"] = module
    spec.loader.exec_module(module)
    model = module.TritonPythonModel()
    name = folder.parent.name
    names = {"model_name": name, "model_version": folder.name, "model_instance_name": f"{name}_0"}
    model.initialize({"model_config": config, "model_instance_kind": "CPU", **names})
    return model


def controls(config: str) -> Arrays:
    """Return the control tensors that Triton adds to a request which is a sequence of its own."""
    given = json.loads(config)
    shape = [1] * (2 if given["max_batch_size"] else 1)
    tensors = {}
    for tensor in given.get("sequence_batching", {}).get("control_input", []):
        [control] = tensor["control"]
        values = next((f for f in CONTROL_TYPES if control.get(f"{f}_false_true")), None)
        kind = CONTROL_TYPES[values] if values else control["data_type"].removeprefix("TYPE_")
        true = control[f"{values}_false_true"][1] if values else 1
        tensors[tensor["name"]] = np.full(shape, true, kind.lower())
    return tensors


def answers(model: Any, inputs: list[Arrays]) -> Sequence[object]:
    """Return for each request the arrays of its response, or text and code of its error.

    If the model is decoupled, return a list of them for each request.
    """
    requests = [
        InferenceRequest([Tensor(name, array) for name, array in arrays.items()])
        for arrays in inputs
    ]
    responses = model.execute(requests)
    if responses is None:
        return [[_answer(response) for response in request.sender.sent] for request in requests]
    return [
        _answer(response or request.sender.sent[0])
        for request, response in zip(requests, responses, strict=True)
    ]


def _answer(response: InferenceResponse) -> Arrays | tuple[str, int]:
    if error := response.error():
        return error.message(), error.code
    return {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}


@contextmanager
def _own_stdout(printed: int) -> Iterator[BinaryIO]:
    """Yield the stream to the harness. What the step prints goes to the file `printed`."""
    with os.fdopen(os.dup(1), "wb") as stream:
        os.dup2(printed, 1)
        yield stream


def main() -> None:
    """Read the config, then lists of requests, as pickles. Write None or what went wrong, then their answers."""
    with _own_stdout(int(sys.argv[2])) as stream:
        config = pickle.load(sys.stdin.buffer)
        added = controls(config)
        reply: object = None
        try:
            model = load(Path(sys.argv[1]), config)
        except Exception as error:
            reply = f"{type(error).__name__}: {error}"
        while True:
            sys.stdout.flush()
            pickle.dump(reply, stream)
            stream.flush()
            try:
                requests = pickle.load(sys.stdin.buffer)
                reply = answers(model, [{**request, **added} for request in requests])
            except EOFError:
                return


if __name__ == "__main__":
    main()
