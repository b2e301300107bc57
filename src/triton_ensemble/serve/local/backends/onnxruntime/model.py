"""Stand-in for Triton's ONNX Runtime backend on this machine, by the Python package.

Only the local Triton uses it. The container has the real backend for the same config.pbtxt.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped, import-not-found, unused-ignore]
from numpy.typing import NDArray

if TYPE_CHECKING:
    from triton_ensemble.serve.local.backends.python.local_backend import Arrays, LocalBackend
else:
    from local_backend import Arrays, LocalBackend

CUDA = "CUDAExecutionProvider"
TYPES = {
    "tensor(float)": "TYPE_FP32",
    "tensor(float16)": "TYPE_FP16",
    "tensor(double)": "TYPE_FP64",
    "tensor(string)": "TYPE_STRING",
    "tensor(bool)": "TYPE_BOOL",
    **{f"tensor(int{bits})": f"TYPE_INT{bits}" for bits in (8, 16, 32, 64)},
    **{f"tensor(uint{bits})": f"TYPE_UINT{bits}" for bits in (8, 16, 32, 64)},
}


class TritonPythonModel(LocalBackend):
    """Serves any model of backend "onnxruntime" (or platform "onnxruntime_onnx")."""

    default_filename = "model.onnx"

    def load(self, file: Path) -> None:
        """Load the graph, or raise ValueError if config.pbtxt differs from it."""
        path = file / "model.onnx" if file.is_dir() else file
        self.session = ort.InferenceSession(path, self._options(), self._providers())
        if self.on_gpu and CUDA not in self.session.get_providers():
            self.warn_without_cuda("onnxruntime")
        required = _tensors(self.session.get_inputs())
        self._compare_optional(required)
        defaults = _tensors(self.session.get_overridable_initializers())
        self.compare("input", required, defaults)
        self.compare("output", _tensors(self.session.get_outputs()))

    def run(self, inputs: Arrays, outputs: Sequence[str]) -> Arrays:
        """Run the graph once, or raise ValueError for strings that are not UTF-8."""
        feeds = {name: _to_text(name, array) for name, array in inputs.items()}
        return dict(zip(outputs, self.session.run(list(outputs), feeds), strict=True))

    def _compare_optional(self, required: Collection[str]) -> None:
        """Refuse optional inputs of a model with batches, and those without a default in the graph."""
        for name in (spec["name"] for spec in self.config["input"] if spec.get("optional")):
            if self.batches:
                raise ValueError(f"optional input {name} is not supported for models with batches")
            if name in required:
                why = "the graph has no default, an initializer of that name"
                raise ValueError(f"input {name} is optional in config.pbtxt, and {why}")

    def _options(self) -> ort.SessionOptions:
        options = ort.SessionOptions()
        options.log_severity_level = 3
        if self.instances > 1:
            # Instances that each take every core, and spin, are half as fast as one.
            options.intra_op_num_threads = 1
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if threads := self.parameter("intra_op_thread_count"):
            options.intra_op_num_threads = int(threads)
        return options

    def _providers(self) -> list[Any]:
        if not self.on_gpu or CUDA not in ort.get_available_providers():
            return ["CPUExecutionProvider"]
        ort.preload_dlls()  # those of the packages nvidia-*, which are on no library path
        return [(CUDA, {"device_id": self.device_id}), "CPUExecutionProvider"]


def _tensors(nodes: Sequence[Any]) -> dict[str, tuple[str, list[int]]]:
    """Return type and shape by name, with -1 for a size that varies.

    ONNX gives such a size a name, or leaves the name out.
    """
    return {
        node.name: (
            TYPES.get(node.type, node.type),
            [size if isinstance(size, int) else -1 for size in node.shape],
        )
        for node in nodes
    }


def _to_text(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return texts as str, as ONNX Runtime expects them. Triton passes bytes."""
    if array.dtype != np.object_:
        return array
    try:
        texts = [text.decode() for text in array.flat]
    except UnicodeDecodeError:
        raise ValueError(f"input {name} is not UTF-8 text") from None
    return np.array(texts, np.object_).reshape(array.shape)
