"""The types of data from outside: the manifest of steps, and the objects that Triton passes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from .typed import read_typed

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import NotRequired


class _Called(TypedDict):
    name: str
    version: int
    arguments: dict[str, str]
    outputs: list[str]


class CalledModel(_Called, total=False):
    """A model that a step calls, and its inputs by the arguments that spell them."""

    decoupled: bool
    sequence: bool  # it serves sequences


class _Tensor(TypedDict):
    name: str
    data_type: str
    dims: list[int | str]  # Triton has texts


class TensorConfig(_Tensor, total=False):
    """A tensor of a model, or of a step that shares one: then with the pipeline's `tensor` that it is."""

    optional: bool
    allow_ragged_batch: bool
    reshape: dict[str, list[str]]
    tensor: str | None


class _Step(TypedDict):
    name: str
    arguments: dict[str, str]
    results: dict[str, str]
    calls: dict[str, CalledModel]


class StepManifest(_Step, total=False):
    """A step: a `module` of steps/, or for an ONNX step the model `file`."""

    module: str
    file: str
    threads: int
    optional: list[str]  # outputs that it may leave out
    input: list[TensorConfig]  # these three of a step that shares its model
    output: list[TensorConfig]
    parameters: dict[str, dict[str, str]]


class ModelConfig(TypedDict):
    """The part of config.pbtxt that a model reads, as Triton's JSON."""

    max_batch_size: int
    input: list[TensorConfig]
    output: list[TensorConfig]
    parameters: dict[str, dict[str, str]]
    instance_group: list[dict[str, int]]
    model_transaction_policy: NotRequired[dict[str, bool]]
    sequence_batching: NotRequired[object]


class Manifest(TypedDict):
    """The steps that a model serves, in order: one step, or several that share the model."""

    arrays: str  # the library
    steps: list[StepManifest]


class _OneStep(StepManifest):
    arrays: str


def read_manifest(folder: Path) -> tuple[Manifest, bool]:
    """Return what the step.json of a version folder says, and whether its steps share the model.

    Raise ValueError if it is damaged.
    """
    path = folder / "step.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if shared := isinstance(content, dict) and "steps" in content:
            return read_typed(content, Manifest), shared
        step = read_typed(content, _OneStep)
        return {"arrays": step["arrays"], "steps": [step]}, shared
    except ValueError as error:
        raise ValueError(f"{path}: {error}; restore the file from git") from None


class Array(Protocol):
    """An array of NumPy, PyTorch or CuPy: the part that they have in common."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Any: ...  # the library's own
    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> Array: ...
    def __array__(self) -> NDArray[Any]: ...


class Tensor(Protocol):
    """A tensor of the Python backend."""

    def name(self) -> str: ...
    def as_numpy(self) -> NDArray[Any]: ...
    def is_cpu(self) -> bool: ...
    def to_dlpack(self) -> object: ...


class Failure(Protocol):
    """The error of a response."""

    def message(self) -> str: ...


class Response(Protocol):
    """An answer of the Python backend, this model's or another's."""

    def has_error(self) -> bool: ...
    def error(self) -> Failure: ...
    def output_tensors(self) -> list[Tensor]: ...


class Sender(Protocol):
    """An object that sends the answers to a request."""

    def send(self, response: Response | None = None, flags: int = 0) -> None: ...
    def is_cancelled(self) -> bool: ...


class Request(Protocol):
    """A request of the Python backend."""

    def inputs(self) -> Sequence[Tensor]: ...
    def timeout(self) -> int: ...
    def is_cancelled(self) -> bool: ...
    def correlation_id(self) -> int | str: ...
    def flags(self) -> int: ...
    def get_response_sender(self) -> Sender: ...
