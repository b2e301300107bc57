"""The Python models of the project under test, and requests for them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from triton_ensemble.adapter.seams import TensorConfig, read_manifest
from triton_ensemble.facts.client import Array, Arrays
from triton_ensemble.facts.config.repository import model_config
from triton_ensemble.facts.project import Project
from triton_ensemble.testing.files import Sample
from triton_ensemble.testing.harness import config_json

NUMPY_TYPES = {"FP16": "float16", "FP32": "float32", "FP64": "float64", "BOOL": "bool"}


class PythonModel:
    """A model that serves one step or several, by its version folder."""

    def __init__(self, folder: Path, reads: Mapping[str, str]) -> None:
        """Take its version folder, and the tensors of the pipeline that its inputs are, by input."""
        self.folder, self._reads = folder, reads
        self.name = folder.parent.name
        self.config = json.loads(config_json(folder.parent / "config.pbtxt"))
        self.batched = self.config["max_batch_size"] > 0
        rows = 1 if "sequence_batching" in self.config else self.config["max_batch_size"]
        self.max_rows = max(1, min(4, rows))  # of the requests that tests make
        decoupled = self.config.get("model_transaction_policy", {}).get("decoupled", False)
        steps = read_manifest(folder)[0]["steps"]
        leaves_out = any("optional" in step for step in steps)
        self.joins_requests = rows > 1 and not decoupled and not leaves_out

    def requests(self, samples: list[Sample], rows: int = 1) -> dict[str, Arrays]:
        """Return requests by what they are: samples, zeros, and random values.

        The samples are left out unless the model reads the pipeline's inputs. If there are samples, texts are not made
        up: what decodes them may refuse any others. The first request comes once more without the inputs that requests
        may leave out.
        """
        requests = self._whole_requests(samples, rows)
        what, whole = next(iter(requests.items()))
        optional = [tensor["name"] for tensor in self.config["input"] if tensor["optional"]]
        rest = {name: array for name, array in whole.items() if name not in optional}
        if rest and rest.keys() < whole.keys():
            requests[f"{what} without {', '.join(optional)}"] = rest
        return requests

    def _whole_requests(self, samples: list[Sample], rows: int) -> dict[str, Arrays]:
        requests = {
            f"sample {sample.name}": inputs
            for sample in samples
            if (inputs := self._repeat_sample(sample, rows))
        }
        if requests and any(t["data_type"] == "TYPE_STRING" for t in self.config["input"]):
            return requests
        requests["zeros"] = self._fill(rows, None)
        requests["random values"] = self._fill(rows, np.random.default_rng(0))
        return requests

    def _repeat_sample(self, sample: Sample, rows: int) -> Arrays | None:
        """Return the first row of a sample's inputs, `rows` times, or None if the model reads other tensors."""
        inputs = {}
        for tensor in self.config["input"]:
            name = self._reads.get(tensor["name"], tensor["name"])
            if name in sample.inputs and "reshape" not in tensor:
                inputs[tensor["name"]] = sample.inputs[name]
            elif not tensor["optional"] or "reshape" in tensor:
                return None
        if not self.batched:
            return inputs
        return {name: array[:1].repeat(rows, 0) for name, array in inputs.items()}

    def _fill(self, rows: int, random: np.random.Generator | None) -> Arrays:
        return {
            tensor["name"]: self._array(tensor, rows, random) for tensor in self.config["input"]
        }

    def _array(self, tensor: TensorConfig, rows: int, random: np.random.Generator | None) -> Array:
        seen = tensor["reshape"]["shape"] if "reshape" in tensor else tensor["dims"]
        dims = [2 if int(dim) < 0 else int(dim) for dim in seen]
        shape = [rows] * self.batched + dims
        kind = tensor["data_type"].removeprefix("TYPE_")
        values = random.random(shape) * 100 if random else np.zeros(shape)
        if kind == "STRING":
            texts = [b"%d" % value for value in values.flat] if random else [b""] * values.size
            return np.array(texts, dtype=np.object_).reshape(shape)
        return values.astype(NUMPY_TYPES.get(kind, kind.lower()))


def reads(project: Project, model: str) -> dict[str, str]:
    """Return the tensors of the pipeline that a model's inputs are, by input.

    The mapping is empty if the ensemble does not call the model.
    """
    ensemble = model_config(project.repository, project.ensemble)
    steps = (step for step in ensemble.ensemble_scheduling.step if step.model_name == model)
    return next((dict(step.input_map) for step in steps), {})


def reads_of_step(folder: Path) -> dict[str, str]:
    """Return the tensors of the pipeline by input for a step that shares a model, as its version folder says."""
    manifest = json.loads((folder / "step.json").read_text())
    return {tensor["name"]: tensor["tensor"] for tensor in manifest["input"]}


def version_folders(project: Project) -> Iterator[str]:
    """Yield each version folder, and before it VERSION:STEP for each step that shares a model.

    Leave out models and steps that call other models: only a server answers those calls.
    """
    for version in project.step_modules:
        manifest, shared = read_manifest(project.repository / version)
        steps = manifest["steps"]
        yield from (
            f"{version}:{step['name']}"
            for step in steps
            if shared and "module" in step and not step["calls"]
        )
        if not any(step["calls"] for step in steps):
            yield version
