"""The Python models of the project under test, and requests for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_ensemble.client import Arrays
from triton_ensemble.project import Project
from triton_ensemble.samples.files import Sample
from triton_ensemble.testing.harness import config_json

NUMPY_TYPES = {"FP16": "float16", "FP32": "float32", "FP64": "float64", "BOOL": "bool"}


class PythonModel:
    """A model that serves one step or several, by its version folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.parent.name
        self.config = json.loads(config_json(folder.parent / "config.pbtxt"))
        self.batched = self.config["max_batch_size"] > 0
        rows = 1 if "sequence_batching" in self.config else self.config["max_batch_size"]
        self.max_rows = max(1, min(4, rows))  # of the requests that tests make
        decoupled = self.config.get("model_transaction_policy", {}).get("decoupled", False)
        self.joins_requests = rows > 1 and not decoupled

    def requests(self, samples: list[Sample], rows: int = 1) -> dict[str, Arrays]:
        """Return the samples whose inputs are those of the model, zeros, and random values, by what they are."""
        random = np.random.default_rng(0)
        requests = {}
        names = {tensor["name"] for tensor in self.config["input"]}
        for sample in samples:
            if sample.inputs.keys() == names:
                first = {name: array[:1].repeat(rows, 0) for name, array in sample.inputs.items()}
                requests[f"sample {sample.name}"] = first if self.batched else sample.inputs
        requests["zeros"] = self._filled(rows, None)
        requests["random values"] = self._filled(rows, random)
        return requests

    def _filled(self, rows: int, random: np.random.Generator | None) -> Arrays:
        return {
            tensor["name"]: self._array(tensor, rows, random) for tensor in self.config["input"]
        }

    def _array(
        self, tensor: dict[str, Any], rows: int, random: np.random.Generator | None
    ) -> NDArray[Any]:
        seen = tensor["reshape"]["shape"] if "reshape" in tensor else tensor["dims"]
        dims = [2 if int(dim) < 0 else int(dim) for dim in seen]
        shape = [rows] * self.batched + dims
        kind = tensor["data_type"].removeprefix("TYPE_")
        values = random.random(shape) * 100 if random else np.zeros(shape)
        if kind == "STRING":
            texts = [b"%d" % value for value in values.flat] if random else [b""] * values.size
            return np.array(texts, dtype=np.object_).reshape(shape)
        return values.astype(NUMPY_TYPES.get(kind, kind.lower()))


def version_folders(project: Project) -> Iterator[str]:
    """Return each version folder, and VERSION:STEP for each step of those that share a model.

    Without those that call other models, which only a server answers.
    """
    for version in project.step_modules:
        manifest = json.loads((project.repository / version / "step.json").read_text())
        steps = manifest.get("steps", [])
        if not any(step["calls"] for step in steps or [manifest]):
            yield version
        yield from (f"{version}:{s['name']}" for s in steps if "module" in s and not s["calls"])
