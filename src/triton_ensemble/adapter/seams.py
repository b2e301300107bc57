"""The types of data from outside: the manifest of steps, and the objects that Triton passes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import NotRequired


class CalledModel(TypedDict):
    """A model that a step calls, and its inputs by the arguments that spell them."""

    name: str
    version: int
    arguments: dict[str, str]
    outputs: list[str]
    decoupled: NotRequired[bool]


class TensorConfig(TypedDict):
    """A tensor of a model, or of a step that shares one: then with the pipeline's `tensor` that it is."""

    name: str
    data_type: str
    dims: list[str]
    optional: NotRequired[bool]
    reshape: NotRequired[dict[str, list[str]]]
    tensor: NotRequired[str | None]


class StepManifest(TypedDict):
    """A step: a `module` of steps/, or for an ONNX step the model `file`."""

    name: str
    arguments: dict[str, str]
    results: dict[str, str]
    calls: dict[str, CalledModel]
    module: NotRequired[str]
    file: NotRequired[str]
    threads: NotRequired[int]
    input: NotRequired[list[TensorConfig]]  # these three of a step that shares its model
    output: NotRequired[list[TensorConfig]]
    parameters: NotRequired[dict[str, dict[str, str]]]


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


def read_manifest(folder: Path) -> tuple[Manifest, bool]:
    """Return what the step.json of a version folder says, and whether its steps share the model."""
    content = json.loads((folder / "step.json").read_text())
    shared = "steps" in content
    return (content if shared else {"arrays": content["arrays"], "steps": [content]}), shared


class Tensor(Protocol):
    """A tensor of the Python backend."""

    def name(self) -> str: ...
    def as_numpy(self) -> NDArray[Any]: ...
    def is_cpu(self) -> bool: ...
    def to_dlpack(self) -> object: ...


class Response(Protocol):
    """An answer of the Python backend, this model's or another's."""

    def has_error(self) -> bool: ...
    def error(self) -> Any: ...
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
