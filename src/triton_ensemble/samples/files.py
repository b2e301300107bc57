"""Sample requests: samples/NAME.json holds the inputs of a request and, where known, its outputs.

    {"inputs": {"IMAGE": [[{"file": "cat.jpg"}]]}, "outputs": {"LABEL": [["cat"]]}}

Tensors are nested lists of shape [{{ 'batch, ' if max_batch_size }}*dims]; in a text tensor {"file": NAME} stands for the
bytes of a file next to it, {"base64": TEXT} for bytes that are no text.{{ ' The outputs are those of the\nfirst answer.' if graph.decoupled }}
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tritonclient.utils import triton_to_np_dtype  # type: ignore[import-untyped]

from {{ package }}.batches import arrays as typed
from {{ package }}.tensors import INPUTS, MAX_BATCH_SIZE
from triton_ensemble.project import ROOT

# The dims of a request of zeros: each step takes them.
DIMS: dict[str, tuple[int, ...]] = {
{% for name, dims in graph.sample_dims.items() %}
    {{ name | to_json(ensure_ascii=false) }}: ({{ dims | join(', ') }}{{ ',' if dims | length == 1 }}),
{% endfor %}
}


@dataclass(frozen=True)
class Sample:
    """A request by its inputs, and its expected outputs: by name, each of shape [{{ 'batch, ' if max_batch_size }}*dims]."""

    name: str
    inputs: dict[str, NDArray[Any]]
    outputs: dict[str, NDArray[Any]]


def array(value: Any, folder: Path) -> NDArray[Any]:
    """A nested list as an array; texts and files become bytes."""
    cells = np.array(value, dtype=object)
    if not any(isinstance(cell, str | dict) for cell in cells.flat):
        return np.array(value)
    for position, cell in np.ndenumerate(cells):
        cells[position] = content(cell, folder)
    return cells


def content(cell: str | dict[str, str], folder: Path) -> bytes:
    if isinstance(cell, str):
        return cell.encode()
    if isinstance(cell, dict) and "base64" in cell:
        return base64.b64decode(cell["base64"], validate=True)
    if isinstance(cell, dict) and "file" in cell:
        return (folder / cell["file"]).read_bytes()
    raise ValueError(json.dumps(cell) + ' is no text, {"file": NAME} or {"base64": TEXT}')


def samples() -> list[Sample]:
    """The project's samples; a request of zeros where it has none."""
    return load(ROOT / "samples") or [zeros()]


def load(folder: Path) -> list[Sample]:
    """The samples of a folder, by name; ValueError for a file that is none."""
    return [_sample(path) for path in sorted(folder.glob("*.json"))]


def _sample(path: Path) -> Sample:
    try:
        found = json.loads(path.read_text())
        if not isinstance(found, dict) or "inputs" not in found:
            raise ValueError('it has no "inputs"; write {"inputs": {NAME: [...]}}')
        inputs = typed(_arrays(found, "inputs", path.parent))
        outputs = _arrays(found, "outputs", path.parent)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: is no sample request: {error}") from error
    return Sample(path.stem, inputs, outputs)


def _arrays(found: dict[str, Any], side: str, folder: Path) -> dict[str, NDArray[Any]]:
    values = found.get(side, {})
    if not isinstance(values, dict):
        raise ValueError(f'its "{side}" are ' + "no tensors by name; write {NAME: [...]}")
    arrays = {}
    for name, value in values.items():
        try:
            arrays[name] = array(value, folder)
        except (OSError, TypeError, ValueError) as error:
            raise ValueError(f"{side}, {name}: {error}") from error
    return arrays


def zeros(rows: int = 1) -> Sample:
    """A request of zeros and empty texts, for a pipeline without samples."""
    return Sample("zeros", {name: blank(name, rows) for name in INPUTS}, {})


def blank(name: str, rows: int, value: int = 0) -> NDArray[Any]:
    """All zeros, or ones; a text has as many characters."""
    shape = (rows,) * (MAX_BATCH_SIZE > 0) + DIMS[name]
    if INPUTS[name].datatype == "BYTES":
        return np.full(shape, b"1" * value, dtype=object)
    return np.full(shape, value, dtype=triton_to_np_dtype(INPUTS[name].datatype))
