"""What a model repository says of its models, by their names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped, unused-ignore]
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]


def configs(repository: Path) -> dict[str, Any]:
    """Their ModelConfig."""
    return {
        path.parent.name: text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())
        for path in sorted(repository.glob("*/config.pbtxt"))
    }


def shared_steps(repository: Path) -> dict[str, list[str]]:
    """The steps of each model that several share."""
    found: dict[str, list[str]] = {}
    for path in repository.glob("*/*/step.json"):
        if steps := json.loads(path.read_text()).get("steps"):
            found[path.parent.parent.name] = [step["name"] for step in steps]
    return found
