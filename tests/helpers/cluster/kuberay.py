"""KubeRay's RayService, against the schema of its custom resource, where an unknown field is an error.

    python tests/helpers/cluster/kuberay.py ray.io_rayservices.yaml > tests/helpers/cluster/rayservice.yaml

makes the committed schema of KubeRay's own file, which is a megabyte: without descriptions, and
without what a RayService here does not have, or what kubernetes-validate knows better, as pods.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

SCHEMA = Path(__file__).with_name("rayservice.yaml")
HEAD = "# Written by kuberay.py from ray-operator/config/crd/bases/ray.io_rayservices.yaml of KubeRay v1.6.0 (Apache-2.0), the oldest that docs/ray.md names."
PODS = "template"
UNUSED = {"autoscalerOptions", "headService", "serveService", "status"}


def reduced(definition: Mapping[str, Any]) -> Any:
    """Return the schema of `ray.io/v1` in a custom resource definition, which takes no unknown field."""
    [schema] = [
        version["schema"]["openAPIV3Schema"]
        for version in definition["spec"]["versions"]
        if version["name"] == "v1"
    ]
    return _strict(schema)


def _strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        key: value for key, value in schema.items() if key in ("enum", "items", "required", "type")
    }
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if "items" in kept:
        kept["items"] = _strict(kept["items"])
    if isinstance(of_each := schema.get("additionalProperties"), dict):
        kept["additionalProperties"] = _strict(of_each)
    if properties := schema.get("properties"):
        known = {name: one for name, one in properties.items() if name not in UNUSED}
        kept["properties"] = {
            name: {"type": "object"} if name in (PODS, "metadata") else _strict(one)
            for name, one in known.items()
        }
        kept["additionalProperties"] = False
    return kept


@cache
def _validator() -> Any:
    return jsonschema.Draft7Validator(yaml.safe_load(SCHEMA.read_text()))


def problems(service: Mapping[str, Any]) -> Iterator[str]:
    """Yield what KubeRay would say of a RayService, but for its pods."""
    for error in _validator().iter_errors(service):
        yield f"{error.json_path}: {error.message}"


if __name__ == "__main__":
    print(HEAD)
    print(yaml.safe_dump(reduced(yaml.safe_load(Path(sys.argv[1]).read_text())), width=120), end="")
