"""endpoint.yml: what an endpoint is to be, and the call of TIR's SDK that makes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triton_ensemble.deploy.tir import EndpointError
from triton_ensemble.facts.answers import NO_YAML, load_yaml
from triton_ensemble.facts.reading import read_bytes

FILE = Path("deploy", "tir", "endpoint.yml")
OWN_IMAGE = "aimle2e/tritonserver:24.02-py3-01"
MOST_WORKERS = 64
# TIR asks for HTTP at 8080, gRPC at 9000 and metrics at 8082.
ARGS = ["--http-port=8080", "--grpc-port=9000", "--metrics-port=8082"]
# A bucket, after the host that `make push` may have been given, and what is in it.
MODELS = r"s3://(?:https?://[^/]+/)?[a-z0-9.\-]{3,63}/([\w.\-/]+)"
NUMBER = (int, r"\d+", "a number")
# By field: its type, its form, and what to write.
FIELDS: dict[str, tuple[type, str, str]] = {
    "name": (str, r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", "small letters, digits and -"),
    "plan": (str, r"[A-Z0-9]\S*-\d+-\d+(GB)?-\d+", "the name of a plan, as CPU-C3-4-8GB-0"),
    "image": (
        str,
        r"[a-z0-9._\-:]+/[a-z0-9._\-/]+:[\w.\-]+",
        "namespace/name:tag in small letters, or leave it out for TIR's own",
    ),
    "registry_namespace": NUMBER,
    "model_repository": NUMBER,
    "models": (str, MODELS, "s3://bucket/prefix/version, the bucket in small letters"),
    "disk_gb": NUMBER,
    "workers.min": NUMBER,
    "workers.max": NUMBER,
    "scale.metric": (str, r"\w+", "the name of a metric, such as cpu"),
    "scale.value": NUMBER,
}
OPTIONAL = {"image", "registry_namespace", "model_repository", "models"}


def read(root: Path) -> dict[str, Any]:
    """Return the fields of endpoint.yml, nested fields as `workers.min`.

    Raise EndpointError for values that TIR would refuse.
    """
    try:
        given = load_yaml(read_bytes(root / FILE))
    except (OSError, *NO_YAML) as error:
        raise EndpointError(f"{FILE}: {' '.join(str(error).split())}") from None
    if not isinstance(given, dict):
        raise EndpointError(f"{FILE}: is not a mapping; write `name:` and so on")
    fields = dict(_flat(given))
    for name in fields:
        if name not in FIELDS:
            raise EndpointError(f"{FILE}: {name} is not a field; write one of {', '.join(FIELDS)}")
    for name, (kind, form, write) in FIELDS.items():
        value = fields.get(name)
        if value is None and name in OPTIONAL:
            continue
        if type(value) is not kind or not re.fullmatch(form, str(value)):
            raise EndpointError(
                f"{FILE}: {name} is {json.dumps(value, default=str)}; write {write}"
            )
    if problem := _problem(fields):
        raise EndpointError(f"{FILE}: {problem}")
    return fields


def _flat(given: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in given.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        yield from ((f"{name}.{key}" if key else str(name), each) for key, each in inner)


def _problem(fields: dict[str, Any]) -> str:
    """Return what is wrong with fields together, or an empty text if nothing is wrong."""
    least, most = fields["workers.min"], fields["workers.max"]
    if not least <= most or not 1 <= most <= MOST_WORKERS:
        return f"workers are {least} to {most}; write min <= max, and max from 1 to {MOST_WORKERS}"
    if "image" in fields and "models" in fields:
        return "image has the models inside; leave out models, or image"
    if "image" not in fields and not {"models", "model_repository"} <= fields.keys():
        return "TIR's own image does not have models; write model_repository and models, or image"
    if "registry_namespace" in fields and "image" not in fields:
        return "registry_namespace belongs to an image; write image too"
    return ""


def call(fields: dict[str, Any], ensemble: str) -> tuple[str, dict[str, Any]]:
    """Return the method of the SDK's EndPoints that makes this endpoint, and its arguments."""
    least, most = fields["workers.min"], fields["workers.max"]
    both = {
        "endpoint_name": fields["name"],
        "plan": fields["plan"],
        "replicas": max(1, least),
        "is_auto_scale_enabled": least != most,
        "min_replicas": least,
        "max_replicas": most,
        "metric": fields["scale.metric"],
        "value": fields["scale.value"],
    }
    if "image" in fields:
        return "create", both | _read_image(fields, ensemble)
    return "create_triton", both | _read_bucket(fields)


def _read_bucket(fields: dict[str, Any]) -> dict[str, Any]:
    path = re.sub(MODELS, r"\1", fields["models"])
    return {
        "container_name": OWN_IMAGE,
        "model_id": fields["model_repository"],
        "model_path": path.strip("/"),
        "disk_size": fields["disk_gb"],
    }


def _read_image(fields: dict[str, Any], ensemble: str) -> dict[str, Any]:
    namespace = fields.get("registry_namespace")
    return {
        "framework": "custom",
        "container_name": fields["image"],
        "container_type": "public" if namespace is None else "private",
        "registry_namespace_id": namespace,
        "args": ARGS,
        "probe_url": f"/v2/models/{ensemble}/ready",
        "disc_size": fields["disk_gb"],
    }
