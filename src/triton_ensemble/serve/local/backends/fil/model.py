"""Stand-in for Triton's FIL backend on this machine, by Treelite, with which that backend computes on a CPU too.

Only the local Triton uses it. The container has the real backend for the same config.pbtxt. The sources of
fil_backend, src/shared_state.h and src/tl_model.h, say what it requires. Its documentation calls some of it optional.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from triton_ensemble.serve.local.backends.python.local_backend import Arrays, LocalBackend
    from triton_ensemble.serve.local.backends.python.local_stand_in import StandIn
else:
    from local_backend import Arrays, LocalBackend
    from local_stand_in import StandIn

INPUT, OUTPUT = "input__0", "output__0"
FILES = {
    "xgboost": "xgboost.model",
    "xgboost_json": "xgboost.json",
    "xgboost_ubj": "xgboost.ubj",
    "lightgbm": "model.txt",
    "treelite_checkpoint": "checkpoint.tl",
}


class TritonPythonModel(StandIn):
    """Serves any model of backend "fil": its trees, or zeros while no parameter says what its file is."""

    backend = "fil"

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the one model of this instance. `args` comes from Triton."""
        if "model_type" not in json.loads(args["model_config"])["parameters"]:
            super().initialize(args)
            return
        trees = Trees()
        trees.initialize(args)
        self.execute = trees.execute  # type: ignore[method-assign]


class Trees(LocalBackend):
    """A model file that Treelite reads."""

    def find(self, version: Path) -> Path:
        """Return the model file, whose default name depends on the parameter model_type."""
        self.kind = self.parameter("model_type") or ""
        if self.kind not in FILES:
            raise ValueError(f"{self.kind} not recognized as a valid serialization format")
        self.default_filename = FILES[self.kind]
        return super().find(version)

    def load(self, file: Path) -> None:
        """Load the trees, or raise ValueError if config.pbtxt lacks a parameter or differs from them."""
        classifies = "output_class" if self.parameter("output_class") else "is_classifier"
        self.classifies = self._flag(classifies, self._required(classifies))
        self.gives_scores = self._flag("predict_proba", self.parameter("predict_proba") or "false")
        self.threshold = float(self._required("threshold")) if self.classifies else 0.5
        # Waking threads for a few rows takes longer than computing them.
        self.threads = int(self.parameter("cpu_nthread") or 1)
        if not self.batches:
            raise ValueError("FIL needs a max_batch_size of 1 or more")
        import treelite  # type: ignore[import-not-found, import-untyped, unused-ignore]

        self.treelite = treelite
        self.model = self._read(file)
        header = self.model.get_header_accessor()
        self.classes = int(header.get_field("num_class")[0])
        if self.gives_scores and self.classes > 1:
            vector = header.get_field("leaf_vector_shape")[1] > 1
            header.set_field("postprocessor", "identity_multiclass" if vector else "softmax")
        self.compare("input", {INPUT: ("TYPE_FP32", [-1, self.model.num_feature])})
        self.compare("output", {OUTPUT: ("TYPE_FP32", [-1, self._width()])})

    def run(self, inputs: Arrays, outputs: Sequence[str]) -> Arrays:
        """Compute the trees' scores, or the classes that have the highest."""
        scores = self.treelite.gtil.predict(self.model, inputs[INPUT], nthread=self.threads)
        scores = scores.reshape(len(inputs[INPUT]), -1)
        return {OUTPUT: self._select(scores).astype(np.float32)}

    def _select(self, scores: NDArray[Any]) -> NDArray[Any]:
        if not self.classifies:
            return scores
        if self.gives_scores:
            return np.hstack([1 - scores, scores]) if self._width() > scores.shape[1] else scores
        best = scores.argmax(axis=1)[:, None] if self.classes > 1 else scores > self.threshold
        return np.asarray(best)

    def _width(self) -> int:
        """Return the size of a row of the output: of two classes, the second one's score alone or both, as declared."""
        if not self.classifies or (self.classes == 1 and self.gives_scores):
            both = self.classifies and [*map(int, self.config["output"][0]["dims"])] == [2]
            return 2 if both else self.classes
        return self.classes if self.gives_scores else 1

    def _read(self, file: Path) -> Any:
        if self.kind == "treelite_checkpoint":
            return self.treelite.Model.deserialize(file)
        if self.kind == "lightgbm":
            return self.treelite.frontend.load_lightgbm_model(file)
        if self.kind == "xgboost":
            return self.treelite.frontend.load_xgboost_model_legacy_binary(file)
        return self.treelite.frontend.load_xgboost_model(
            file,
            format_choice={"xgboost_json": "json", "xgboost_ubj": "ubjson"}[self.kind],
            allow_unknown_field=self._flag("xgboost_allow_unknown_field", "false"),
        )

    def _required(self, name: str) -> str:
        value = self.parameter(name)
        if value is None:
            raise ValueError(f"Required parameter {name} not found in config")
        return value

    def _flag(self, name: str, default: str) -> bool:
        value = self.parameter(name) or default
        if value not in ("true", "false"):
            raise ValueError(f"Expected 'true' or 'false' for parameter '{name}', got: '{value}'")
        return value == "true"
