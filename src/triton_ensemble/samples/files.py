"""Sample requests: samples/NAME.json holds the inputs of a request and, where known, its outputs.

    {"inputs": {"IMAGE": [[{"file": "cat.jpg"}]]}, "outputs": {"LABEL": [["cat"]]}}

Tensors are nested lists of shape [batch, *dims], or [*dims] where the pipeline has no batch
dimension. In a text tensor {"file": NAME} stands for the bytes of a file next to it, and
{"base64": TEXT} for bytes that are not text. The outputs of a decoupled pipeline are those of the
first answer.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.utils import triton_to_np_dtype  # type: ignore[import-untyped]

from triton_ensemble.client import Arrays, package
from triton_ensemble.project import Input, Project


@dataclass(frozen=True)
class Sample:
    """A request by its inputs, and its expected outputs: by name, each of shape [batch, *dims]."""

    name: str
    inputs: Arrays
    outputs: Arrays


def samples(project: Project) -> list[Sample]:
    """Return the project's samples; a request of zeros where it has none."""
    return load(project) or [zeros(project)]


def load(project: Project) -> list[Sample]:
    """Read the project's samples, sorted by name; ValueError for a file that is not a sample."""
    return [_sample(project, path) for path in sorted(project.samples.glob("*.json"))]


def _sample(project: Project, path: Path) -> Sample:
    try:
        sample = json.loads(path.read_text())
        if not isinstance(sample, dict) or "inputs" not in sample:
            raise ValueError('it has no "inputs"; write {"inputs": {NAME: [...]}}')
        inputs = package(project, "runtime.batches").arrays(_arrays(sample, "inputs", path.parent))
        outputs = _arrays(sample, "outputs", path.parent)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: is no sample request: {error}") from error
    return Sample(path.stem, inputs, outputs)


def _arrays(sample: Mapping[str, Any], side: str, folder: Path) -> Arrays:
    values = sample.get(side, {})
    if not isinstance(values, dict):
        raise ValueError(f'its "{side}" are ' + "no tensors by name; write {NAME: [...]}")
    arrays = {}
    for name, value in values.items():
        try:
            arrays[name] = array(value, folder)
        except (OSError, TypeError, ValueError) as error:
            raise ValueError(f"{side}, {name}: {error}") from error
    return arrays


def array(value: Any, folder: Path) -> NDArray[Any]:
    """Return a nested list as an array; texts, and files of `folder`, become bytes."""
    cells = np.array(value, dtype=object)
    if not any(isinstance(cell, str | dict) for cell in cells.flat):
        return np.array(value)
    for position, cell in np.ndenumerate(cells):
        cells[position] = _content(cell, folder)
    return cells


def _content(cell: str | dict[str, str], folder: Path) -> bytes:
    if isinstance(cell, str):
        return cell.encode()
    if isinstance(cell, dict) and "base64" in cell:
        return base64.b64decode(cell["base64"], validate=True)
    if isinstance(cell, dict) and "file" in cell:
        return (folder / cell["file"]).read_bytes()
    raise ValueError(json.dumps(cell) + ' is no text, {"file": NAME} or {"base64": TEXT}')


def zeros(project: Project, rows: int = 1) -> Sample:
    """Return a request of zeros and empty texts, for a pipeline without samples."""
    return Sample("zeros", filled(project, 0, rows), {})


def filled(project: Project, value: int, rows: int = 1) -> Arrays:
    """Return inputs that have one value everywhere, 0 or 1; a text has as many characters."""
    batch = (rows,) * (project.max_batch_size > 0)
    return {tensor.name: _filled(tensor, batch, value) for tensor in project.inputs}


def _filled(tensor: Input, batch: tuple[int, ...], value: int) -> NDArray[Any]:
    shape = batch + tensor.dims
    if tensor.datatype == "BYTES":
        return np.full(shape, b"1" * value, dtype=object)
    return np.full(shape, value, dtype=triton_to_np_dtype(tensor.datatype))
