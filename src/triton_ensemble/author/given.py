"""Models that exist already: their inputs and outputs, and the files that a project needs of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from triton_ensemble.author import onnx_file, torchscript
from triton_ensemble.author.adopt.fields import (
    Defaults,
    find_backend,
    read_fields,
    tensor_spec,
)
from triton_ensemble.author.adopt.files import files_of
from triton_ensemble.author.adopt.refusal import Refused
from triton_ensemble.author.tensor import DraftTensor
from triton_ensemble.facts import catalog
from triton_ensemble.facts.answers import Answers
from triton_ensemble.facts.config import Model, read_model
from triton_ensemble.facts.project import ProjectError

READERS = {".onnx": ("onnxruntime", onnx_file), ".pt": ("pytorch", torchscript)}
WHAT = "name an .onnx or TorchScript (.pt) file, or a model's folder in a model repository"
SCALARS: Answers = {"reshape": []}  # one value a row, of which Triton's clients see [1]


@dataclass(frozen=True)
class GivenModel:
    """An existing model: its tensors by their own names, and its step's settings.

    `files` are the files that the project keeps in models/STEP/, by their paths there.
    """

    backend: str
    inputs: list[DraftTensor]
    outputs: list[DraftTensor]
    settings: Answers
    files: dict[str, Path] = field(default_factory=dict)


def models_in(path: Path) -> list[Path]:
    """Return the folders of a repository's models, or an empty list if the path is not a repository."""
    if not path.is_dir() or (path / "config.pbtxt").is_file():
        return []
    return sorted(config.parent for config in path.glob("*/config.pbtxt"))


def read_given_model(path: Path, defaults: Defaults) -> GivenModel:
    """Read a model file, or a model's folder in a repository.

    Raise ProjectError if the path is neither.
    """
    if path.is_dir():
        return _read_repository(path, defaults)
    if path.suffix not in READERS or not path.is_file():
        what = f"is not a file of {' or '.join(READERS)}" if path.exists() else "is not there"
        raise ProjectError(f"{path} {what}; {WHAT}")
    backend, reader = READERS[path.suffix]
    inputs, outputs, beside = reader.read(path)
    if not (inputs and outputs):
        raise ProjectError(f"{path}: has no {'outputs' if inputs else 'inputs'}; {WHAT}")
    batched = defaults.max_batch_size > 0
    scalars = {
        side: {each.name: SCALARS for each in tensors if batched and each.dims == [-1]}
        for side, tensors in (("inputs", inputs), ("outputs", outputs))
    }
    file = catalog.backends()[backend].file
    return GivenModel(
        backend,
        [*_rows(path, inputs, batched)],
        [*_rows(path, outputs, batched)],
        {"adopted": True, **{side: uses for side, uses in scalars.items() if uses}},
        {
            f"1/{file}": path,
            **{f"1/{other.relative_to(path.parent).as_posix()}": other for other in beside},
        },
    )


def _rows(path: Path, tensors: list[DraftTensor], batched: bool) -> Iterator[DraftTensor]:
    """Yield tensors without the batch dimension, or raise ProjectError if a model takes no batches."""
    for tensor in tensors:
        if not batched or tensor.dims is None:
            yield tensor
        elif not tensor.dims or tensor.dims[0] != -1:
            what = f"its {tensor.name} is {tensor.type}{tensor.dims}, which has no batch dimension"
            raise ProjectError(
                f"{path}: {what}; export it with an open first one, or use --data max_batch_size=0"
            )
        else:
            yield DraftTensor(tensor.name, tensor.type, tensor.dims[1:] or [1])


def _read_repository(folder: Path, defaults: Defaults) -> GivenModel:
    folder = folder.resolve()
    model = read_model(folder)
    if not isinstance(model, Model):
        problem = model.problem
        raise ProjectError(f"{problem.file}: {problem.what}; {WHAT}")
    if model.is_ensemble or not (model.config.input and model.config.output):
        what = "is an ensemble" if model.is_ensemble else "declares no inputs and outputs"
        raise ProjectError(f"{model.path}: {what}; use triton-ensemble adopt for the repository")
    inputs, outputs = (
        [DraftTensor(each.name, tensor_spec(each)["type"], [*each.dims]) for each in side]
        for side in (model.config.input, model.config.output)
    )
    settings = {"adopted": True, **read_fields(model.config, defaults)}
    try:
        files = {path.as_posix(): folder / path for path in files_of(model)}
    except Refused as error:
        raise ProjectError(str(error)) from error
    return GivenModel(find_backend(model.config), inputs, outputs, settings, files)
