"""An ONNX step in the process of the Python steps beside it."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped, import-not-found, unused-ignore]

from triton_step import Context, text

from .arrays import StepError
from .seams import Array, StepManifest


class OnnxStep:
    """Takes and returns the tensors of a model file by their own names, on the CPU."""

    def __init__(self, manifest: StepManifest, context: Context) -> None:
        self._outputs = [tensor["name"] for tensor in manifest["output"]]
        path = context.directory / manifest["file"]
        threads = context.parameters.get("intra_op_thread_count", manifest["threads"])
        options = session_options(int(threads))
        self._session = ort.InferenceSession(path, options, ["CPUExecutionProvider"])
        self._names = manifest["arguments"]
        optional = {tensor["name"] for tensor in manifest["input"] if tensor["optional"]}
        self._compare(manifest["name"], list(self._names.values()), optional)

    def __call__(self, **inputs: Array | None) -> dict[str, Array]:
        given = {self._names[each]: array for each, array in inputs.items() if array is not None}
        feeds = {name: decode_texts(array) for name, array in given.items()}
        return dict(zip(self._outputs, self._session.run(self._outputs, feeds), strict=True))

    def _compare(self, step: str, given: list[str], optional: set[str]) -> None:
        """Raise StepError if the file has other tensors than pipeline.yml says."""
        required = [node.name for node in self._session.get_inputs()]
        inputs = required + [node.name for node in self._session.get_overridable_initializers()]
        outputs = [node.name for node in self._session.get_outputs()]
        for side, names, known in (("input", given, inputs), ("output", self._outputs, outputs)):
            for name in names:
                if name not in known:
                    has = ", ".join(known)
                    raise StepError(f"step {step}: its file has no {side} {name}; it has {has}")
        for name in required:
            if name not in given:
                raise StepError(f"step {step}: its file needs the input {name}; feed it")
            if name in optional:
                what = "which is optional here; give it a default, an initializer of that name"
                raise StepError(f"step {step}: its file needs the input {name}, {what}")


def session_options(threads: int) -> ort.SessionOptions:
    """Return options for a session of so many threads. 0 means one for each core."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    if threads == 1:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def decode_texts(array: Array) -> Array:
    """Return texts as str, as ONNX Runtime expects them. Triton passes bytes."""
    return text(np.asarray(array)) if array.dtype == np.object_ else array
