# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Makes the model endpoint of endpoint.yml on TIR, by TIR's own SDK; `--print` prints its call alone.

    pip install e2enetworks==1.4.9
    python deploy/tir/create.py

The SDK reads E2E_TIR_API_KEY, E2E_TIR_ACCESS_TOKEN, E2E_TIR_TEAM_ID, E2E_TIR_PROJECT_ID and E2E_TIR_LOCATION.
"""

import contextlib
import importlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("endpoint.yml")
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
    "plan": (str, r"[A-Z0-9]\S*-\d+-\d+-\d+", "the name of a plan, as list_plans prints it"),
    "image": (str, r"\S+/\S+:[\w.\-]+", "NAMESPACE/NAME:TAG, or leave it out for TIR's own"),
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


class Wrong(ValueError):
    """What keeps the endpoint from being made, in a line."""


def read(file: Path = FILE) -> dict[str, Any]:
    """The fields of endpoint.yml, those of mappings as `workers.min`. Raises Wrong for what TIR would not take."""
    try:
        given = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Wrong(f"{file}: {' '.join(str(error).split())}") from None
    if not isinstance(given, dict):
        raise Wrong(f"{file}: is no mapping; write `name:` and what follows")
    fields = dict(_flat(given))
    for name in fields:
        if name not in FIELDS:
            raise Wrong(f"{file}: {name} is no field; write one of {', '.join(FIELDS)}")
    for name, (kind, form, write) in FIELDS.items():
        value = fields.get(name)
        if value is None and name in OPTIONAL:
            continue
        if type(value) is not kind or not re.fullmatch(form, str(value)):
            raise Wrong(f"{file}: {name} is {json.dumps(value)}; write {write}")
    if problem := _problem(fields):
        raise Wrong(f"{file}: {problem}")
    return fields


def _flat(given: dict[Any, Any]) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in given.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        flat += [(f"{name}.{key}" if key else str(name), each) for key, each in inner]
    return flat


def _problem(fields: dict[str, Any]) -> str:
    """What is wrong with fields together; empty if nothing is."""
    least, most = fields["workers.min"], fields["workers.max"]
    if not least <= most or not 1 <= most <= MOST_WORKERS:
        return f"workers are {least} to {most}; write min <= max, and max from 1 to {MOST_WORKERS}"
    if "image" in fields and "models" in fields:
        return "image has the models inside; leave out models, or image"
    if "image" not in fields and not {"models", "model_repository"} <= fields.keys():
        return "TIR's own image has no models; write model_repository and models, or image"
    if "registry_namespace" in fields and "image" not in fields:
        return "registry_namespace is of an image; write image too"
    return ""


def call(fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The method of the SDK's EndPoints that makes this endpoint, and its arguments."""
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
        return "create", both | _of_image(fields)
    return "create_triton", both | _of_bucket(fields)


def _of_bucket(fields: dict[str, Any]) -> dict[str, Any]:
    path = re.sub(MODELS, r"\1", fields["models"])
    return {
        "container_name": OWN_IMAGE,
        "model_id": fields["model_repository"],
        "model_path": path.strip("/"),
        "disk_size": fields["disk_gb"],
    }


def _of_image(fields: dict[str, Any]) -> dict[str, Any]:
    namespace = fields.get("registry_namespace")
    project = json.loads((FILE.parents[2] / "vendor/project.json").read_text())
    return {
        "framework": "custom",
        "container_name": fields["image"],
        "container_type": "public" if namespace is None else "private",
        "registry_namespace_id": namespace,
        "args": ARGS,
        "probe_url": f"/v2/models/{project['ensemble']}/ready",
        "disc_size": fields["disk_gb"],
    }


def create(method: str, arguments: dict[str, Any]) -> Any:
    """What TIR answers. Raises Wrong for a refusal, and where the SDK lacks something."""
    said = io.StringIO()  # the SDK prints each address, with the key in it
    try:
        with contextlib.redirect_stdout(said):
            tir: Any = importlib.import_module("e2enetworks.cloud.tir")
            made, answer = getattr(tir.EndPoints(), method)(**arguments)
    except ModuleNotFoundError as error:
        raise Wrong(f"{error}; run: pip install e2enetworks==1.4.9") from None
    except Exception as error:  # whatever the SDK and its HTTP client raise
        text = " ".join(str(error).split())
        if text == arguments["plan"]:
            text = f"plan {text}: TIR has none of that name now; list_plans prints those it has"
        raise Wrong(re.sub(r"apikey=[^&\s]*", "apikey=...", text) or type(error).__name__) from None
    if not made:
        refusals = [line for line in said.getvalue().splitlines() if line.startswith("ERROR:")]
        raise Wrong(f"TIR refuses it: {' '.join(refusals) or 'it says no more'}")
    return answer


def main() -> None:
    try:
        method, arguments = call(read())
        if "--print" in sys.argv[1:]:
            print(json.dumps({method: arguments}, indent=2))
            return
        answer = create(method, arguments)
    except Wrong as wrong:
        sys.exit(str(wrong))
    number = getattr(answer, "id", "ID")
    print(f"endpoint {arguments['endpoint_name']}, number {number}: TIR shows when it runs")


if __name__ == "__main__":
    main()
