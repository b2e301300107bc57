"""What a model repository says of its models, read without a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped, unused-ignore]
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]


def model_config(repository: Path, model: str) -> Any:
    """Return the ModelConfig of a model; ParseError where config.pbtxt is none."""
    text = (repository / model / "config.pbtxt").read_text(encoding="utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def model_configs(repository: Path) -> dict[str, Any]:
    """Return the ModelConfig of each model, by the model's name."""
    names = sorted(path.parent.name for path in repository.glob("*/config.pbtxt"))
    return {name: model_config(repository, name) for name in names}


def fused_steps(repository: Path) -> dict[str, list[str]]:
    """Return the names of the steps of each model that serves several."""
    manifests = (
        (path.parent.parent.name, json.loads(path.read_text(encoding="utf-8")))
        for path in repository.glob("*/*/step.json")
    )
    return {
        model: [step["name"] for step in manifest["steps"]]
        for model, manifest in manifests
        if manifest.get("steps")
    }
