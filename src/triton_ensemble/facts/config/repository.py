"""The models of a repository, for callers that need all of them to be readable."""

from __future__ import annotations

from pathlib import Path

from triton_ensemble.facts.config.message import ModelConfig
from triton_ensemble.facts.config.model import UnreadModel, read_model
from triton_ensemble.facts.reading import read_json


def model_config(repository: Path, model: str) -> ModelConfig:
    """Return the config of a model, or raise ValueError if it can't be read."""
    read = read_model(repository / model)
    if isinstance(read, UnreadModel):
        problem = read.problem
        raise ValueError(f"{problem.file}:{problem.line}: {problem.what}; {problem.instead}")
    return read.config


def model_configs(repository: Path) -> dict[str, ModelConfig]:
    """Return the config of each model that has one, by the model's name.

    Raise ValueError if one can't be read.
    """
    names = sorted(path.parent.name for path in repository.glob("*/config.pbtxt"))
    return {name: model_config(repository, name) for name in names}


def list_called_models(repository: Path) -> dict[str, list[str]]:
    """Return, by model, the names of the models that it calls by BLS while it runs.

    Adopted models have no entry.
    """
    called: dict[str, list[str]] = {}
    for path in repository.glob("*/*/step.json"):
        names = called.setdefault(path.parent.parent.name, [])
        names += [name for name in read_manifest_calls(path) if name not in names]
    return called


def read_manifest_calls(step_json: Path) -> list[str]:
    """Return the names of the models that the steps of a version folder call."""
    manifest = read_json(step_json)
    steps = manifest.get("steps", [manifest])
    return [called["name"] for step in steps for called in step.get("calls", {}).values()]


def list_fused_steps(repository: Path) -> dict[str, list[str]]:
    """Return the names of the steps of each model that serves several."""
    manifests = (
        (path.parent.parent.name, read_json(path)) for path in repository.glob("*/*/step.json")
    )
    return {
        model: [step["name"] for step in manifest["steps"]]
        for model, manifest in manifests
        if manifest.get("steps")
    }
