"""deploy/ray: what kustomize makes of it, against the schemas of KubeRay and of pods."""

from __future__ import annotations

from functools import reduce
from operator import getitem
from typing import Any

import pytest
import yaml
from cluster.kuberay import problems
from cluster.manifests import RELEASES, built, of_schema
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
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ray"}, **group["template"]}


def test_requests_at_once_fill_batches(generate: Generate) -> None:
    for size, ongoing in ((8, 32), (64, 128)):
        project = generate(extras=["gateway", "ray"], max_batch_size=size)
        [app] = yaml.safe_load((project / "deploy/ray/serve.yaml").read_text())["applications"]
        [deployment] = app["deployments"]
        assert deployment["max_ongoing_requests"] == ongoing
        variables = deployment["ray_actor_options"]["runtime_env"]["env_vars"]
        assert variables["GATEWAY_CONCURRENCY"] == str(ongoing)
