# Yours: written once, never touched by `make update`.
"""ONNX graphs as text, with their weights: the three models in small."""

from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import numpy_helper, parser

# Opset 17 is read by every ONNX Runtime since 1.12; a newer one can be too new for the server.
HEAD = '<ir_version: 8, opset_import: ["": 17]>'


def save(path: Path, graph: str, **weights: NDArray[Any]) -> None:
    """Write an ONNX file: a graph in ONNX's own notation, and the arrays that it reads by name."""
    model = parser.parse_model(f"{HEAD} {graph}")
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    model.graph.initializer.extend(constants)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
