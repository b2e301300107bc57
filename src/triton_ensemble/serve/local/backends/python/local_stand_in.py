"""Stand-in for a backend of Triton that does not run on this machine.

The container has the real one. The stand-in checks requests against config.pbtxt and answers with zeros,
or empty texts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]
from numpy.typing import NDArray

if TYPE_CHECKING:
    from triton_ensemble.serve.local.backends.python.local_backend import (
        Arrays,
        LocalBackend,
        States,
        model_dims,
    )
else:
    from local_backend import Arrays, LocalBackend, States, model_dims


class StandIn(LocalBackend):
    """Serves any model of `backend`, which a subclass names."""

    backend = ""
    does = "answers with zeros and empty texts"

    def find(self, version: Path) -> Path:
        """Return any version: the model file is not read."""
        return version

    def load(self, file: Path) -> None:
        """Log what this stand-in does."""
        self.states = States({})
        self.sizes: dict[str, list[int]] = json.loads(self.parameter("sizes") or "{}")
        self.warning = f"{self.config['name']}: a stand-in for {self.backend} {self.does}"
        pb_utils.Logger.log_warn(self.warning)

    def run(self, inputs: Arrays, outputs: Sequence[str]) -> Arrays:
        """Return blank outputs, or raise ValueError for an input that config.pbtxt does not allow."""
        for name, array in inputs.items():
            if name in self.tensors:
                self._check_input(name, array)
        rows = self._rows(inputs)
        pb_utils.Logger.log_warn(f"{self.warning}: {rows} rows of {', '.join(outputs)}")
        return {name: self._make_blank(name, rows) for name in outputs}

    def _check_input(self, name: str, array: NDArray[Any]) -> None:
        spec = self.tensors[name]
        if array.dtype != _dtype(spec):
            raise ValueError(f"input {name} is {array.dtype}, not {spec['data_type']}")
        shape, dims = list(array.shape[self.batches :]), model_dims(spec)
        fits = len(shape) == len(dims) and all(
            dim in (-1, size) for size, dim in zip(shape, dims, strict=True)
        )
        if not fits:
            raise ValueError(f"input {name} has dims {shape}, not {dims}")

    def _rows(self, inputs: Arrays) -> int:
        """Return the number of rows of a request.

        Without a batch dimension, a first dim that varies counts the rows.
        """
        open_first = [name for name, spec in self.tensors.items() if model_dims(spec)[:1] == [-1]]
        counted = (len(a) for name, a in inputs.items() if self.batches or name in open_first)
        return next(counted, 1)

    def _make_blank(self, name: str, rows: int) -> NDArray[Any]:
        """Return zeros or empty texts. A dim that varies has the size that its readers declare, or 1."""
        spec = self.tensors[name]
        sizes = [-1] * self.batches + self.sizes.get(name, model_dims(spec))
        shape = [rows if i == 0 and size < 1 else max(size, 1) for i, size in enumerate(sizes)]
        blank = b"" if spec["data_type"] == "TYPE_STRING" else 0
        return np.full(shape, blank, dtype=_dtype(spec))


def _dtype(spec: Any) -> Any:
    return np.dtype(pb_utils.triton_string_to_numpy(spec["data_type"]))
