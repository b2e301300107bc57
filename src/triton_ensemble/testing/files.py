"""Sample requests: samples/NAME.json holds the inputs of a request and, if they are known, its outputs.

    {"inputs": {"IMAGE": [[{"file": "cat.jpg"}]]}, "outputs": {"LABEL": [["cat"]]}}

Tensors are nested lists of shape [batch, *dims], or [*dims] without a batch dimension. In a text tensor {"file": NAME}
stands for the bytes of a file next to it, and {"base64": TEXT} for bytes that are not text. Instead of a tensor of
numbers, {"zeros": [1, 3, 224, 224]} means zeros of that shape. The outputs of a decoupled pipeline are its first answer.

The template made up a file with a "stub": it is sent only if there is no other.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.utils import triton_to_np_dtype  # type: ignore[import-untyped]

from triton_ensemble.facts.client import Arrays, package
from triton_ensemble.facts.project import (
    PROBE,
    Input,
    Project,
    read_named_file,
)
from triton_ensemble.facts.reading import MODEL_BYTES, read_json
from triton_ensemble.facts.terminal import escape_line
from triton_ensemble.testing.printing import to_json

Files = dict[tuple[str, int], Path]  # of an input and a row, whose content is that of a file


@dataclass(frozen=True)
class Sample:
    """A request by its inputs, and its expected outputs: by name, each of shape [batch, *dims].

    The template made up a `made_up` request, and a strict step may refuse it.
    """

    name: str
    inputs: Arrays
    outputs: Arrays
    made_up: bool = False


def samples(project: Project) -> list[Sample]:
    """Return the project's samples. Without any, return the stub, or a request of zeros that fits."""
    return load(project) or [_stub(project) or zeros(project)]


def choose_probe(samples: list[Sample]) -> Sample:
    """Return the sample that health checks send: `probe`, else the first."""
    return next((sample for sample in samples if sample.name == PROBE), samples[0])


def load(project: Project) -> list[Sample]:
    """Read the samples that are not stubs, sorted by name.

    Raise ValueError for a file that is not a sample.
    """
    typed = package(project, "runtime.batches").arrays
    return [read(path, typed) for path in project.sample_files()]


def way_out(project: Project, sample: Sample) -> str:
    """Return what to do if a made-up sample is refused, or "" for other samples.

    A made-up sample is not worth a look.
    """
    return (
        f"; the template made up this sample, so record a request: {project.sample_command()}"
        if sample.made_up
        else ""
    )


def _stub(project: Project) -> Sample | None:
    """Return the stub among the samples.

    Return None if there is none, or if the pipeline has another interface by now.
    """
    typed = package(project, "runtime.batches").arrays
    for path in project.sample_stubs():
        with suppress(ValueError):
            return replace(read(path, typed), made_up=True)
    return None


def read(path: Path, typed: Callable[[Arrays], Arrays]) -> Sample:
    """Read a file of one request, whose inputs `typed` gives their types.

    Raise ValueError if the file is not a sample request.
    """
    try:
        sample = read_json(path)
        if not isinstance(sample, dict) or "inputs" not in sample:
            raise ValueError('it has no "inputs"; write {"inputs": {NAME: [...]}}')
        inputs = typed(_arrays(sample, "inputs", path.parent))
        outputs = _arrays(sample, "outputs", path.parent)
    except (OSError, RecursionError, ValueError) as error:
        raise ValueError(f"{escape_line(str(path))}: is not a sample request: {error}") from error
    return Sample(path.stem, inputs, outputs)


def _arrays(sample: Mapping[str, Any], side: str, folder: Path) -> Arrays:
    values = sample.get(side, {})
    if not isinstance(values, dict):
        raise ValueError(f'its "{side}" are ' + "not tensors by name; write {NAME: [...]}")
    arrays = {}
    for name, value in values.items():
        try:
            arrays[name] = array(value, folder)
        except (OSError, TypeError, ValueError) as error:
            raise ValueError(f"{side}, {name}: {error}") from error
    return arrays


def array(value: Any, folder: Path) -> NDArray[Any]:
    """Return a nested list as an array. Texts, and files of `folder`, become bytes."""
    if isinstance(value, dict) and "zeros" in value:
        if math.prod(np.ravel(value["zeros"]).tolist()) > MODEL_BYTES:
            raise ValueError(f"{json.dumps(value)} is too large")
        return np.zeros(value["zeros"], dtype=bool)  # which any type of numbers takes
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
        return read_named_file(folder, cell["file"])
    raise ValueError(json.dumps(cell) + ' is not text, {"file": NAME} or {"base64": TEXT}')


def zeros(project: Project, rows: int = 1) -> Sample:
    """Return a request of zeros and empty texts, for a pipeline without samples."""
    return Sample("zeros", fill_inputs(project, 0, rows), {}, made_up=True)


def fill_inputs(project: Project, value: int, rows: int = 1) -> Arrays:
    """Return inputs that have one value everywhere, 0 or 1. A text has as many characters."""
    batch = (rows,) * project.batched
    return {tensor.name: _fill(tensor, batch, value) for tensor in project.inputs}


def _fill(tensor: Input, batch: tuple[int, ...], value: int) -> NDArray[Any]:
    shape = batch + tensor.dims
    if tensor.datatype == "BYTES":
        return np.full(shape, b"1" * value, dtype=object)
    return np.full(shape, value, dtype=triton_to_np_dtype(tensor.datatype))


def text(
    project: Project, inputs: Arrays, files: Files | None = None, outputs: Arrays | None = None
) -> str:
    """Return a sample as JSON, a line for each tensor."""
    values = to_json(inputs)
    for (name, row), path in (files or {}).items():
        cells = values[name][row] if project.batched else values[name]
        cells[0] = {"file": path.name}
    sides = {"inputs": values} | ({"outputs": to_json(outputs)} if outputs else {})
    return "{\n" + ",\n".join(_side(name, tensors) for name, tensors in sides.items()) + "\n}\n"


def _side(side: str, tensors: Mapping[str, Any]) -> str:
    lines = [f"    {_json(name)}: {_json(value)}" for name, value in tensors.items()]
    return f'  "{side}": {{\n' + ",\n".join(lines) + "\n  }"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
