"""Stand-in for Triton's OpenVINO backend on this machine, by the Python package.

Only the local Triton uses it. The container has the real backend for the same config.pbtxt.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openvino as ov  # type: ignore[import-untyped, import-not-found, unused-ignore]

if TYPE_CHECKING:
    from triton_ensemble.serve.local.backends.python.local_backend import Arrays, LocalBackend
else:
    from local_backend import Arrays, LocalBackend

TYPES = {
    "f16": "TYPE_FP16",
    "f32": "TYPE_FP32",
    "boolean": "TYPE_BOOL",
    **{f"i{bits}": f"TYPE_INT{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"TYPE_UINT{bits}" for bits in (8, 16, 32, 64)},
}


class TritonPythonModel(LocalBackend):
    """Serves any model of backend "openvino"."""

    default_filename = "model.xml"

    def load(self, file: Path) -> None:
        """Compile the model, or raise ValueError if config.pbtxt differs from it."""
        core = ov.Core()
        model = core.read_model(file)
        if self.batches:  # the real backend gives the first dimension the size of the batch
            model.reshape({port: [-1, *list(port.partial_shape)[1:]] for port in model.inputs})
        self.compare("input", _tensors(model.inputs))
        self.compare("output", _tensors(model.outputs))
        self.request = core.compile_model(model, "CPU", self._properties()).create_infer_request()

    def run(self, inputs: Arrays, outputs: Sequence[str]) -> Arrays:
        """Run the model once."""
        self.request.infer(dict(inputs))
        return {name: self.request.get_tensor(name).data.copy() for name in outputs}

    def _properties(self) -> dict[str, Any]:
        # Instances that each take every core are slower than one.
        return {"INFERENCE_NUM_THREADS": 1} if self.instances > 1 else {}


def _tensors(ports: Sequence[Any]) -> dict[str, tuple[str, list[int]]]:
    """Return type and shape by name. A tensor may have several names."""
    return {
        name: (TYPES.get(port.element_type.get_type_name(), str(port.element_type)), _shape(port))
        for port in ports
        for name in sorted(port.names)
    }


def _shape(port: Any) -> list[int]:
    return [size.get_length() if size.is_static else -1 for size in port.partial_shape]
