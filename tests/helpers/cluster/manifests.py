"""The judgement of a cluster on manifests: schemas of all supported releases, custom kinds, and what schemas miss."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from cloudcoil.models.keda.v1alpha1 import ScaledObject
from cloudcoil.models.prometheus_operator.v1 import (
    PodMonitor,
    PrometheusRule,
)

# From the oldest that kubernetes-validate has. An image volume has a feature gate from 1.33 on; from 1.35 on it is on.
RELEASES = tuple(f"1.{minor}" for minor in range(26, 38))
IMAGE_VOLUME_RELEASES = tuple(release for release in RELEASES if release >= "1.33")
CUSTOM = {"ScaledObject": ScaledObject, "PodMonitor": PodMonitor, "PrometheusRule": PrometheusRule}
# Of the Gateway API there is no schema among Python's packages: the checks below are all that these get.
UNCHECKED = {"HTTPRoute", "GRPCRoute"}
SELECTING = {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "PodMonitor"}
NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
Manifest = Mapping[str, Any]


def built(folder: Path) -> list[Manifest]:
    """Return what `kubectl kustomize` makes of a folder."""
    run = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return list(yaml.safe_load_all(run.stdout))


def problems(manifests: list[Manifest], releases: tuple[str, ...] = RELEASES[-1:]) -> list[str]:
    """Return what is wrong with the manifests of an application, a line each."""
    found = [f"{m['kind']}: {text}" for m in manifests for text in of_schema(m, releases)]
    return found or list(_of_meaning({m["kind"]: m for m in manifests}, manifests))


def of_schema(manifest: Manifest, releases: tuple[str, ...]) -> Iterator[str]:
    """Yield what releases of Kubernetes, or the model of a custom kind, say of a manifest."""
    kind = manifest["kind"]
    if kind != "ConfigMap" and not NAME.fullmatch(manifest["metadata"]["name"]):
        yield f"{manifest['metadata']['name']} is not a name of a Service"
    if kind in CUSTOM:
        yield from lost(dict(manifest), _through(CUSTOM[kind]))
    elif kind not in UNCHECKED:
        text = json.dumps(manifest, sort_keys=True)
        yield from filter(None, (_refused(text, release) for release in releases))


@cache
def _refused(text: str, release: str) -> str:
    """Return what a release of Kubernetes says of a manifest, most of which many combinations share."""
    try:
        kubernetes_validate.validate(json.loads(text), release, strict=True)
    except (
        kubernetes_validate.ValidationError,
        kubernetes_validate.SchemaNotFoundError,
    ) as error:
        return f"{release}: {error}"
    return ""


def lost(manifest: dict[str, Any], round_trip: Callable[[dict[str, Any]], Any]) -> Iterator[str]:
    """Yield what a round trip through a model changes: it drops fields that it does not know."""
    try:
        kept = round_trip(manifest)
    except ValueError as error:
        yield str(error)
    else:
        yield from _changed(manifest, kept, "")


def _changed(before: Any, after: Any, path: str) -> Iterator[str]:
    """Yield the fields that are others, or are gone."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            yield from _changed(before.get(name), after.get(name), f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _changed(old, new, f"{path}[{number}]")
    elif before != after or type(before) is not type(after):
        yield f"{path} is {after!r} after a round trip, and was {before!r}"


def _through(model: Any) -> Callable[[dict[str, Any]], Any]:
    """Return the round trip through a model of cloudcoil."""
    return lambda manifest: model.model_validate(manifest).model_dump(
        mode="json", by_alias=True, exclude_unset=True
    )


def _of_meaning(by_kind: Mapping[str, Manifest], manifests: list[Manifest]) -> Iterator[str]:
    deployment = by_kind["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    container, *beside = pod["containers"]
    labels = deployment["template"]["metadata"]["labels"].items()
    ports = {p["name"]: p["containerPort"] for c in pod["containers"] for p in c["ports"]}
    for manifest in manifests:
        spec, kind = manifest.get("spec", {}), manifest["kind"]
        selector = spec.get("selector", spec.get("podSelector", {}))
        wanted = selector.get("matchLabels", {} if "matchExpressions" in selector else selector)
        if kind in SELECTING and not (wanted and wanted.items() <= labels):
            yield f"{kind}: selects {wanted}, and pods have {dict(labels)}"
        if kind == "Service":
            yield from (
                f"Service: port {port['targetPort']} is none of the container's"
                for port in spec["ports"]
                if port["targetPort"] not in ports
            )
    yield from of_volumes(pod, container, *beside)
    yield from of_resources(pod, container)
    for other in beside:
        yield from _of_beside(container, other)
    yield from _of_times(deployment, pod, container, ports)
    yield from _of_others(by_kind, manifests, ports)


def of_volumes(pod: Manifest, *containers: Manifest) -> Iterator[str]:
    """Yield where a pod's volumes are not those that its containers mount."""
    volumes = {volume["name"] for volume in pod["volumes"]}
    mounts = {mount["name"] for container in containers for mount in container["volumeMounts"]}
    if volumes != mounts:
        yield f"volumes {sorted(volumes)}, mounts {sorted(mounts)}"


def of_resources(pod: Manifest, container: Manifest) -> Iterator[str]:
    """Yield where requests are not limits, and where shared memory takes too much of the memory."""
    requests, limits = container["resources"]["requests"], container["resources"]["limits"]
    for name in {*requests, *limits} - {"cpu", "ephemeral-storage"}:
        if requests.get(name) != limits.get(name):
            yield f"{name}: {requests.get(name)} requested, {limits.get(name)} the limit"
    if len(gpus := [name for name in limits if name.startswith("nvidia.com/")]) > 1:
        yield f"{' and '.join(gpus)} at once"
    [shm] = [v["emptyDir"]["sizeLimit"] for v in pod["volumes"] if v["name"] == "shm"]
    if mebibytes(shm) > mebibytes(limits["memory"]) / 2:
        yield f"shared memory of {shm} in a limit of {limits['memory']}"


def _of_beside(triton: Manifest, container: Manifest) -> Iterator[str]:
    """Yield what is wrong with a container that asks the Triton of its pod."""
    if container["securityContext"] != triton["securityContext"]:
        yield f"{container['name']}: may do more than Triton"
    if _waits(container) >= _waits(triton):
        yield f"{container['name']}: Triton ends before it has answered"
    ports = {port["name"] for port in container["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if container[probe]["httpGet"]["port"] not in ports:
            yield f"{container['name']}: {probe} asks another port"


def _waits(container: Manifest) -> int:
    """Return the seconds of preStop."""
    return int(container["lifecycle"]["preStop"]["exec"]["command"][1])


def mebibytes(quantity: str) -> int:
    """Return a quantity of memory in MiB."""
    return int(quantity.removesuffix("Mi"))


def _of_times(
    deployment: Manifest, pod: Manifest, container: Manifest, ports: Mapping[str, int]
) -> Iterator[str]:
    probe = container["startupProbe"]
    if probe["httpGet"]["port"] not in ports:
        yield f"startupProbe: asks port {probe['httpGet']['port']}"
    if deployment["progressDeadlineSeconds"] <= probe["periodSeconds"] * probe["failureThreshold"]:
        yield "the deadline of progress is over before the server may have started"
    exit_timeout = 30  # graph.container.exit_timeout_s; the caller compares with serve.sh
    if pod["terminationGracePeriodSeconds"] <= _waits(container) + exit_timeout:
        yield "the grace period is over before requests in flight have ended"


def _of_others(
    by_kind: Mapping[str, Manifest], manifests: list[Manifest], ports: Mapping[str, int]
) -> Iterator[str]:
    name = by_kind["Deployment"]["metadata"]["name"]
    for kind in ("HorizontalPodAutoscaler", "ScaledObject"):
        if kind in by_kind:
            if by_kind[kind]["spec"]["scaleTargetRef"]["name"] != name:
                yield f"{kind}: scales another Deployment"
            if "replicas" in by_kind["Deployment"]["spec"]:
                yield f"{kind}: each apply sets replicas back"
    if "PodMonitor" in by_kind:
        for endpoint in by_kind["PodMonitor"]["spec"]["podMetricsEndpoints"]:
            if endpoint["port"] not in {*ports, "gateway"}:  # which is a component's
                yield f"PodMonitor: port {endpoint['port']} is none of the container's"
    services = {
        (m["metadata"]["name"], port["port"])
        for m in manifests
        if m["kind"] == "Service"
        for port in m["spec"]["ports"]
    }
    for manifest in manifests:
        for rule in manifest["spec"]["rules"] if manifest["kind"] in UNCHECKED else []:
            for ref in rule.get("backendRefs", []):
                if (ref["name"], ref["port"]) not in services:
                    yield f"{manifest['kind']}: {ref} is not a Service"
