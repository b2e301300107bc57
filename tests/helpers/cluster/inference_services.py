"""The judgement of KServe, Knative and Triton on the manifests of deploy/kserve, as far as these tell."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import kubernetes.client.models
from cluster.manifests import Manifest, lost, of_resources, of_schema, of_volumes


def _package(name: str) -> ModuleType:
    """Return a package of which nothing is imported but the modules that are asked for."""
    spec = importlib.util.find_spec(name)
    assert spec
    package = sys.modules[name] = ModuleType(name)
    package.__path__ = list(spec.submodule_search_locations or [])
    return package


# All of kserve has a server, whose messages can't be in one process with tritonclient's: they have the same names.
_package("kserve")
api_client = importlib.import_module("kserve.api_client")
models = importlib.import_module("kserve.models")
MODELS = {
    "ServingRuntime": models.V1alpha1ServingRuntime,
    "InferenceService": models.V1beta1InferenceService,
}
# KServe's models name those of Kubernetes, some by their long names; its client looks for them among its own.
OTHERS = vars(kubernetes.client.models) | {
    "K8sIoApiAppsV1DeploymentStrategy": kubernetes.client.models.V1DeploymentStrategy,
    "V1beta1MetricQuantity": object,  # a number, or a text
}
vars(models).update(OTHERS | vars(models))

# What Triton's own ports are, and which port of a container the clients of each protocol need.
LISTENS = {8000, 8001, 8002}
PROTOCOLS = {
    "v2": {"name": "http1", "containerPort": 8000},
    "grpc-v2": {"name": "h2c", "containerPort": 8001},
}
EXIT_TIMEOUT_S = 30  # graph.container.exit_timeout_s; the caller compares with serve.sh
NAME = re.compile(r"[a-z]([-a-z0-9]{0,51}[a-z0-9])?")  # what OpenShift AI takes at most
MODE = "serving.kserve.io/deploymentMode"
AUTOSCALER = "serving.kserve.io/autoscalerClass"
# The fields that Knative takes where nobody has changed its features: those of a container, of a pod, and of the
# predictor besides.
OF_CONTAINER = {
    "args", "command", "env", "envFrom", "image", "imagePullPolicy", "livenessProbe", "name", "ports",
    "readinessProbe", "resources", "securityContext", "startupProbe", "volumeMounts", "workingDir",
}  # fmt: skip
OF_POD = {"automountServiceAccountToken", "enableServiceLinks", "serviceAccountName"}
OF_PREDICTOR = {
    "annotations", "canaryTrafficPercent", "containerConcurrency", "labels", "maxReplicas",
    "minReplicas", "model", "scaleMetric", "scaleTarget", "timeout",
}  # fmt: skip
OF_RUNTIME = {"annotations", "containers", "multiModel", "protocolVersions", "supportedModelFormats", "volumes"}  # fmt: skip


def problems(manifests: list[Manifest], releases: tuple[str, ...] = ("1.37",)) -> list[str]:
    """Return what is wrong with the manifests of an InferenceService, a line each."""
    found = [f"{m['kind']}: {text}" for m in manifests for text in _of_kind(m, releases)]
    if found:
        return found
    [service] = [m for m in manifests if m["kind"] == "InferenceService"]
    runtimes = {m["metadata"]["name"]: m for m in manifests if m["kind"] == "ServingRuntime"}
    model = service["spec"]["predictor"]["model"]
    if model["runtime"] not in runtimes:
        return [f"InferenceService: there is no runtime {model['runtime']}"]
    deployment = made_of(service, runtimes[model["runtime"]])
    found = [f"Deployment: {text}" for text in of_schema(deployment, releases)]
    return found or [
        *(text for runtime in runtimes.values() for text in _of_runtime(runtime)),
        *_of_service(service, runtimes[model["runtime"]]["spec"]),
        *_of_others(service, manifests),
    ]


def _of_kind(manifest: Manifest, releases: tuple[str, ...]) -> Iterator[str]:
    kind = manifest["kind"]
    if kind == "Secret":
        yield "a secret is in a file"
    if kind == "InferenceService" and not NAME.fullmatch(manifest["metadata"]["name"]):
        yield f"{manifest['metadata']['name']} is not a name of one"
    if kind in MODELS:
        yield from lost(dict(manifest), lambda given: round_trip(given, MODELS[kind]))
    else:
        yield from of_schema(manifest, releases)


def round_trip(manifest: Manifest, model: Any) -> Any:
    """Return a manifest as KServe's own models write what they have read, or raise ValueError if they can't read it."""
    client = api_client.ApiClient()
    response = SimpleNamespace(data=json.dumps(manifest))
    kept = client.sanitize_for_serialization(client.deserialize(response, model))
    if kept["spec"].get("predictor", {}).get("model", {}).get("name") == "":
        del kept["spec"]["predictor"]["model"]["name"]  # which the model adds
    return kept


def made_of(service: Manifest, runtime: Manifest) -> dict[str, Any]:
    """Return the Deployment that KServe makes of an InferenceService in Standard mode, or one of the same pod."""
    predictor, spec = service["spec"]["predictor"], runtime["spec"]
    mine = set(predictor) - OF_PREDICTOR - {"autoScaling", "deploymentStrategy"}
    pod = {name: predictor[name] for name in mine}
    pod |= {name: spec[name] for name in ("containers", "tolerations", "volumes") if name in spec}
    labels = service["metadata"]["labels"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"{service['metadata']['name']}-predictor"},
        "spec": {
            "strategy": predictor.get("deploymentStrategy", {}),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _of_runtime(runtime: Manifest) -> Iterator[str]:
    spec, name = runtime["spec"], runtime["metadata"]["name"]
    [container], [version] = spec["containers"], spec["protocolVersions"]
    first, *others = container["ports"]
    if container["name"] != "kserve-container":
        yield f"{name}: KServe looks for kserve-container, not {container['name']}"
    if first != PROTOCOLS[version]:
        yield f"{name}: {version} at port {first}"
    if any("h2c" in port["name"] or "grpc" in port["name"] for port in others):
        yield f"{name}: KServe takes one of {others} for gRPC"
    if not {port["containerPort"] for port in container["ports"]} <= LISTENS:
        yield f"{name}: Triton does not listen at {container['ports']}"
    startup = container.get("startupProbe", {}).get("httpGet", {})
    if startup.get("path") != "/v2/health/ready" or startup.get("port") != 8000:
        yield f"{name}: the startup probe asks {startup}"
    for probe in ("readinessProbe", "livenessProbe"):
        if "exec" not in container.get(probe, {}):
            yield f"{name}: no inference is the {probe}"
    if container["env"][:1] != [{"name": "MODEL_REPOSITORY", "value": "/mnt/models"}]:
        yield f"{name}: KServe puts models at /mnt/models, not as {container['env']} says"
    if "runAsUser" in container["securityContext"]:
        yield f"{name}: OpenShift chooses the user"
    yield from (f"{name}: {text}" for text in of_volumes(spec, container))
    yield from (f"{name}: {text}" for text in of_resources(spec, container))


def _of_service(service: Manifest, runtime: Mapping[str, Any]) -> Iterator[str]:
    predictor, annotations = service["spec"]["predictor"], service["metadata"]["annotations"]
    model = predictor["model"]
    if model["protocolVersion"] not in runtime["protocolVersions"]:
        yield f"{model['runtime']} does not speak {model['protocolVersion']}"
    formats = [{k: f[k] for k in ("name", "version")} for f in runtime["supportedModelFormats"]]
    if model["modelFormat"] not in formats:
        yield f"{model['runtime']} does not serve {model['modelFormat']}"
    yield from _of_storage(model)
    if annotations[MODE] == "Knative":
        yield from _of_knative(service, runtime)
    elif annotations[MODE] in ("Standard", "RawDeployment"):
        yield from _of_deployment(predictor, annotations, runtime)
    else:
        yield f"{annotations[MODE]} is not a mode"


def _of_storage(model: Mapping[str, Any]) -> Iterator[str]:
    storage = model.get("storage", {})
    if ("storageUri" in model) == bool(storage):
        yield "models come from storageUri or from storage"
    path = model.get("storageUri") or storage.get("path", "")
    if not path.endswith("/"):
        yield f"{path} has no slash at its end"
    if storage and (not storage.get("key") or path.startswith("/")):
        yield f"{storage} is not a folder of a bucket"


def _of_knative(service: Manifest, runtime: Mapping[str, Any]) -> Iterator[str]:
    predictor, [container] = service["spec"]["predictor"], runtime["containers"]
    refused = {
        "predictor": {*predictor} - OF_PREDICTOR - OF_POD,
        "container": {*container} - OF_CONTAINER,
        "runtime": {*runtime} - OF_RUNTIME,
    }
    yield from (f"Knative refuses {fields} of the {of}" for of, fields in refused.items() if fields)
    if len(container["ports"]) != 1:
        yield f"Knative: a container has one port, not {container['ports']}"
    if AUTOSCALER in service["metadata"]["annotations"]:
        yield f"Knative scales by itself, not by {AUTOSCALER}"
    if predictor.get("scaleMetric", "rps") not in ("concurrency", "rps"):
        yield f"Knative can't scale by {predictor['scaleMetric']}"
    if predictor.get("scaleTarget", 1) < 1:
        yield "the target of concurrency is below 1"


def _of_deployment(
    predictor: Mapping[str, Any], annotations: Mapping[str, str], runtime: Mapping[str, Any]
) -> Iterator[str]:
    [container] = runtime["containers"]
    waits = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    if predictor["terminationGracePeriodSeconds"] <= waits + EXIT_TIMEOUT_S:
        yield "the grace period is over before requests in flight have ended"
    if "canaryTrafficPercent" in predictor:
        yield "traffic is split by Knative alone"
    scaler = annotations.get(AUTOSCALER)
    scales = {"hpa": {"scaleMetric", "scaleTarget"}, "keda": {"autoScaling"}, None: set[str]()}
    named = {"scaleMetric", "scaleTarget", "autoScaling"} & {*predictor}
    if scaler not in scales or named != scales[scaler]:
        yield f"autoscaler {scaler} with {sorted(named)}"
    if scaler == "hpa" and predictor.get("scaleMetric") not in ("cpu", "memory"):
        yield f"an HPA of KServe can't scale by {predictor.get('scaleMetric')}"
    if (predictor["minReplicas"] < predictor["maxReplicas"]) != bool(scaler):
        yield f"{predictor['minReplicas']} to {predictor['maxReplicas']} replicas by {scaler}"


def _of_others(service: Manifest, manifests: list[Manifest]) -> Iterator[str]:
    accounts = {m["metadata"]["name"] for m in manifests if m["kind"] == "ServiceAccount"}
    if service["spec"]["predictor"]["serviceAccountName"] not in accounts:
        yield "there is no such ServiceAccount"
    ports = {
        port["name"]
        for m in manifests
        if m["kind"] == "ServingRuntime"
        for port in m["spec"]["containers"][0]["ports"]
    }
    pods = {"serving.kserve.io/inferenceservice": service["metadata"]["name"]}
    selecting = {"PodDisruptionBudget": "selector", "NetworkPolicy": "podSelector"}
    for manifest in manifests:
        selector = manifest.get("spec", {}).get(selecting.get(manifest["kind"], ""))
        if selector and selector["matchLabels"] != pods:
            yield f"{manifest['kind']}: selects {selector}, and not {pods}"
    labels = service["metadata"]["labels"].items()
    for monitor in [m["spec"] for m in manifests if m["kind"] == "PodMonitor"]:
        if not monitor["selector"]["matchLabels"].items() <= labels:
            yield f"PodMonitor: selects {monitor['selector']}, and pods have {dict(labels)}"
        if not {endpoint["port"] for endpoint in monitor["podMetricsEndpoints"]} <= ports:
            yield "PodMonitor: its port is none of the container's"
