"""deploy/ray: what kustomize makes of it, against the schemas of KubeRay and of pods."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.kuberay import problems
from cluster.manifests import RELEASES, built, of_schema
from cluster.projects import LONG, choose
from support import Generate


@pytest.mark.parametrize("gpu_count", [0, 2])
def test_it_is_sound(generate: Generate, gpu_count: int) -> None:
    project = generate(extras=["gateway", "ray"], gpu_count=gpu_count)
    [service] = built(project / "deploy/ray")
    assert (service["apiVersion"], service["kind"]) == ("ray.io/v1", "RayService")
    assert not list(problems(service))
    cluster = service["spec"]["rayClusterConfig"]
    [workers] = cluster["workerGroupSpecs"]
    settings = (project / "deploy/ray/serve.yaml").read_text()
    assert service["spec"]["serveConfigV2"] == settings
    for group in (cluster["headGroupSpec"], workers):
        assert not list(of_schema(pod(group), RELEASES))
        [container] = group["template"]["spec"]["containers"]
        assert container["image"] == "registry.example.com/image-classification-ray:1"
        assert container["securityContext"]["readOnlyRootFilesystem"]  # docker/ runs it so
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        assert mounts == {volume["name"] for volume in group["template"]["spec"]["volumes"]}
    [container] = workers["template"]["spec"]["containers"]
    [app] = yaml.safe_load(settings)["applications"]
    [deployment] = app["deployments"]
    options = deployment["ray_actor_options"]
    # A node has room for a replica, and the cluster for as many as autoscaling asks for.
    assert int(container["resources"]["requests"]["cpu"]) >= options["num_cpus"]
    gpus = container["resources"]["limits"].get("nvidia.com/gpu", 0)
    assert gpus == options.get("num_gpus", 0) == gpu_count
    assert workers["maxReplicas"] == deployment["autoscaling_config"]["max_replicas"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["serve"] == yaml.safe_load(settings)["http_options"]["port"]
    lock = (project / "vendor/ray.txt").read_text()
    assert f"\nray=={cluster['rayVersion']} " in lock


def test_kuberay_takes_a_long_name(generate: Generate) -> None:
    [service] = built(generate(extras=["ray"], project_name=LONG) / "deploy/ray")
    assert len(service["metadata"]["name"]) <= 47  # MaxRayServiceNameLength in KubeRay's sources


COMPONENTS = ["availability", "network-policy", "monitoring", "head-fault-tolerance"]


@pytest.mark.parametrize("components", [*([name] for name in COMPONENTS), COMPONENTS], ids=" ".join)
def test_components_are_sound(generate: Generate, components: list[str]) -> None:
    [service, *others] = sorted(
        choose(generate(extras=["ray"]), components, "ray"), key=lambda m: m["kind"] != "RayService"
    )
    assert not list(problems(service))
    assert not [text for manifest in others for text in of_schema(manifest, RELEASES)]
    cluster = service["spec"]["rayClusterConfig"]
    head = {
        "ray.io/node-type": "head",
        **cluster["headGroupSpec"]["template"]["metadata"]["labels"],
    }
    [group] = cluster["workerGroupSpecs"]
    worker = {"ray.io/node-type": "worker", **group["template"]["metadata"]["labels"]}
    ports = {p["name"] for p in group["template"]["spec"]["containers"][0]["ports"]}
    for manifest in others:
        spec = manifest.get("spec", {})  # a ConfigMap has none
        selector = spec.get("selector") or spec.get("podSelector")
        if not selector:
            continue
        wanted = selector["matchLabels"].items()
        of_head = manifest["kind"] == "NetworkPolicy"
        assert wanted <= worker.items(), manifest["kind"]
        assert (wanted <= head.items()) == of_head, manifest["kind"]
        named = [rule["port"] for one in spec.get("ingress", []) for rule in one.get("ports", [])]
        assert {*named, *(one["port"] for one in spec.get("podMetricsEndpoints", []))} <= ports


def rules_of(generate: Generate) -> str:
    """Return the alerts of the component, as a file of Prometheus."""
    manifests = choose(generate(extras=["ray"]), ["monitoring"], "ray")
    [rules] = [m["spec"] for m in manifests if m["kind"] == "PrometheusRule"]
    return yaml.safe_dump(rules, width=10000)


def test_its_alerts_ask_for_the_names_that_ray_gives_to_metrics(generate: Generate) -> None:
    text = rules_of(generate)
    assert "(ray_nv_inference_request_success" in text
    assert "(ray_step_process_seconds_total" in text
    assert not re.search(r"(?<!ray_)\b(nv|step)_\w+\{", text)
    assert "0.1 * count by (job) (up" in text  # Serve's own checks are not traffic


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_its_rules_are_sound(generate: Generate, tmp_path: Path) -> None:
    file = tmp_path / "rules.yml"
    file.write_text(rules_of(generate))
    command = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True)
    assert command.returncode == 0, command.stderr


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("rayClusterConfig.enableInTreeAutoscalin", True, "unexpected"),
        ("rayClusterConfig.authOptions.mode", "tokens", "is not one of"),
        ("rayClusterConfig.headGroupSpec.rayStartParams.num-cpus", 0, "is not of type 'string'"),
        ("serveConfigV2", {}, "is not of type 'string'"),
        ("rayClusterConfig.workerGroupSpecs", {}, "is not of type 'array'"),
    ],
)
def test_what_kuberay_would_refuse_is_found(
    generate: Generate, path: str, value: Any, problem: str
) -> None:
    [service] = built(generate(extras=["ray"]) / "deploy/ray")
    *folders, name = path.split(".")
    reduce(getitem, folders, service["spec"])[name] = value
    [found] = problems(service)
    assert problem in found


def pod(group: dict[str, Any]) -> dict[str, Any]:
    """Return a pod of a group, as KubeRay makes it."""
    template = group["template"]
    metadata = {"name": "ray", **template["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", **template, "metadata": metadata}


def test_requests_at_once_fill_batches(generate: Generate) -> None:
    for size, ongoing in ((8, 32), (64, 128)):
        project = generate(extras=["gateway", "ray"], max_batch_size=size)
        [app] = yaml.safe_load((project / "deploy/ray/serve.yaml").read_text())["applications"]
        [deployment] = app["deployments"]
        assert deployment["max_ongoing_requests"] == ongoing
        variables = deployment["ray_actor_options"]["runtime_env"]["env_vars"]
        assert variables["GATEWAY_CONCURRENCY"] == str(ongoing)
