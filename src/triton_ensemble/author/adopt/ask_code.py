"""Calls `auto_complete_config` of a Python model, as Triton does when it loads the model.

    python -m triton_ensemble.author.adopt.ask_code FOLDER/1/model.py

Reads the config from stdin and writes the completed one to stdout, both as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

Config = dict[str, Any]


class ModelConfig:
    """A config that code may complete, with the methods of Triton's class of this name."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def as_dict(self) -> Config:
        return self._config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        self._config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        self._config.setdefault("dynamic_batching", {})

    def set_model_transaction_policy(self, policy: Config) -> None:
        self._config.setdefault("model_transaction_policy", {}).update(policy)

    def add_input(self, tensor: Config) -> None:
        self._add("input", tensor)

    def add_output(self, tensor: Config) -> None:
        self._add("output", tensor)

    def _add(self, side: str, tensor: Config) -> None:
        """Add a tensor, or raise ValueError as Triton does if the config declares it otherwise."""
        tensors = {each["name"]: each for each in self._config[side]}
        known = tensors.setdefault(tensor["name"], {})
        for field, value in tensor.items():
            if known.get(field) not in (None, "TYPE_INVALID", [], value):
                raise ValueError(f"{tensor['name']} differs from its config")
        known.update(tensor)
        self._config[side] = [*tensors.values()]


def complete(path: Path, config: Config) -> Config:
    """Return a config as the model's code completes it."""
    for tensor in (*config["input"], *config["output"]):
        tensor["dims"] = [int(dim) for dim in tensor["dims"]]  # which JSON of protobuf has as texts
    sys.modules["triton_python_backend_utils"] = MagicMock(ModelConfig=ModelConfig)
    sys.path += [str(path.parent), str(path.parents[1])]
    model = importlib.import_module(f"{path.parent.name}.{path.stem}").TritonPythonModel
    if not hasattr(model, "auto_complete_config"):
        return config
    completed: Config = model.auto_complete_config(ModelConfig(config)).as_dict()
    return completed


def main() -> None:
    """Complete the config from stdin, and write it to stdout. Other output goes to stderr."""
    with os.fdopen(os.dup(1), "w") as stdout:
        os.dup2(2, 1)
        json.dump(complete(Path(sys.argv[1]), json.load(sys.stdin)), stdout)


if __name__ == "__main__":
    main()
