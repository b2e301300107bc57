"""`graph`, the model of the pipeline that hooks/graph/ computes from answers: the fields that Python reads."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

Side = Literal["inputs", "outputs"]
SIDES: tuple[Side, Side] = ("inputs", "outputs")
Fields = dict[str, Any]  # of an answer, or of config.pbtxt


class _Labelled(TypedDict, total=False):
    labels: str | None


class Binding(_Labelled):
    """A tensor of a model, or of the ensemble: its `name` there, and the `tensor` of the pipeline that it is."""

    name: str
    argument: str
    tensor: str | None
    type: str | None
    dims: list[int]
    reshape: list[int] | None
    optional: bool


class Owner(TypedDict):
    """Something that has tensors: a model or the ensemble."""

    name: str
    max_batch_size: int
    inputs: list[Binding]
    outputs: list[Binding]


class _Given(TypedDict, total=False):
    base: dict[str, Any]  # the step whose model serves this one too
    batching: Fields | bool
    declare: bool
    gpus: list[int]
    instances: list[Fields] | int | str
    sequence: Fields
    steps: list[Any]  # of a fused model, or of an ensemble
    takes: list[Binding]
    trtexec: Fields | bool
    warmup: list[Fields]


class Step(Owner, _Given):
    """A step, or a model that serves some."""

    model: str
    module: str
    backend: str
    engine: str
    stub: str
    platform: str | None
    file: str | None
    device: str
    version: int
    versions: list[int]
    settings: Fields
    config: str
    groups: list[Fields]
    adopted: bool
    aside: bool
    decoupled: bool
    calls: list[str]
    called: dict[str, Fields]
    read: list[str]
    written: list[str]
    before: list[str]
    after: list[str]


class Ensemble(Owner):
    """An ensemble as Triton serves it."""

    versions: list[int]
    settings: Fields


class Stage(TypedDict):
    """What differs in a stage."""

    name: str
    gpu_count: int
    models: dict[str, list[int]]  # their versions


class Graph(Owner):
    """The pipeline."""

    given: Fields
    settings: Fields
    tensors: dict[str, Any]
    writers: dict[str, str]
    readers: dict[str, list[str]]
    steps: list[Step]
    models: list[Step]
    ensembles: list[Ensemble]
    inner: list[Any]  # graphs
    stages: list[Stage]
    unfused: list[list[str]]  # a step, and why it is not fused
    python_steps: list[Step]
    made_models: list[Step]
    python_models: list[Step]
    decoupled: bool
    sequential: bool
    example: str
    owned: list[str]
    team: Fields
