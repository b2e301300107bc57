"""deploy/ray/serve.yaml as Ray Serve reads it.

Ray ignores a key that it does not know, but here it is an error.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from ray.serve import schema
from ray.serve.config import AutoscalingConfig

from triton_ensemble.facts.project import Project, ProjectError

FILE = Path("deploy", "ray", "serve.yaml")
MODELS: list[type[BaseModel]] = [
    AutoscalingConfig,
    schema.DeploymentSchema,
    schema.HTTPOptionsSchema,
    schema.RayActorOptionsSchema,
    schema.ServeApplicationSchema,
    schema.ServeDeploySchema,
]
KNOWN = sorted({name for model in MODELS for name in model.model_fields})


def read(project: Project) -> dict[str, Any]:
    """Return the settings. Raise ProjectError with the first that Ray does not know or does not take."""
    try:
        settings = yaml.safe_load((project.root / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ProjectError(f"{FILE}: not there; add ray to extras in pipeline.yml") from None
    except yaml.YAMLError as error:
        raise ProjectError(f"{FILE}: is not YAML: {' '.join(str(error).split())}") from None
    _check(schema.ServeDeploySchema, settings)
    if [len(app.get("deployments", [])) for app in settings["applications"]] != [1]:
        raise ProjectError(f"{FILE}: applications: write one, with one deployment, Pipeline")
    scaling = settings["applications"][0]["deployments"][0].get("autoscaling_config")
    if scaling:  # which the schema takes as it is
        _check(AutoscalingConfig, scaling, "applications.0.deployments.0.autoscaling_config.")
    return dict(settings)


def _check(model: type[BaseModel], value: Any, where: str = "") -> None:
    try:
        model.model_validate(value, extra="forbid")
    except ValidationError as error:
        found = error.errors()[0]
        where += ".".join(str(part) for part in found["loc"])
        unknown = found["type"] == "extra_forbidden"
        said = _unknown(str(found["loc"][-1])) if unknown else found["msg"]
        raise ProjectError(f"{FILE}: {where}: {said}") from None


def _unknown(key: str) -> str:
    near = difflib.get_close_matches(key, KNOWN, 1)
    remedy = f"drop it, or did you mean {near[0]}?" if near else "drop it"
    return f"Ray Serve does not know it, and would ignore it; {remedy}"
