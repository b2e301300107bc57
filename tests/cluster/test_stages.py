"""The overlay of each stage: what it changes of deploy/kubernetes, as `kubectl kustomize` builds it."""

from __future__ import annotations

from typing import Any

import pytest
from cluster import inference_services
from cluster.manifests import built, problems
from cluster.projects import PROJECTS, choose
from support import Generate, Project, succeed

DIGEST = "sha256:" + 64 * "a"


def test_overlays(generate: Generate) -> None:
    stages = {
        "staging": {"gpu_count": 0, "memory": "8192Mi"},
        "prod": {"replicas": 5, "cpu": "4"},
    }
    project = generate(gpu_count=2, extras=["kubernetes"], stages=stages)
    base = project / "deploy/kubernetes/kustomization.yaml"
    base.write_text(
        base.read_text().replace('newTag: "1" # or digest: sha256:...', f"digest: {DIGEST}")
    )
    succeed(project.make("promote", "TO=prod"))
    manifests = {name: built(project / "deploy/stages" / name) for name in stages}
    assert [problems(each) for each in manifests.values()] == [[], []]
    [staging], [prod] = (
        [m for m in each if m["kind"] == "Deployment"] for each in manifests.values()
    )
    [small], [large] = (m["spec"]["template"]["spec"]["containers"] for m in (staging, prod))
    assert (staging["spec"]["replicas"], prod["spec"]["replicas"]) == (2, 5)
    assert [each["env"] for each in (small, large)] == [
        [{"name": "STAGE", "value": name}] for name in stages
    ]
    assert small["resources"]["limits"] == {"ephemeral-storage": "5Gi", "memory": "8192Mi"}
    assert large["resources"]["requests"]["cpu"] == "4"
    assert large["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert large["image"].endswith(f"@{DIGEST}")


def test_overlays_of_kserve(generate: Generate) -> None:
    stages = {"staging": {"gpu_count": 0, "memory": "8192Mi"}, "prod": {"replicas": 5, "cpu": "4"}}
    project = generate(gpu_count=2, extras=["kserve"], stages=stages)
    base = project / "deploy/kserve/kustomization.yaml"
    base.write_text(
        base.read_text().replace('newTag: "1" # or digest: sha256:...', f"digest: {DIGEST}")
    )
    succeed(project.make("promote", "TO=prod"))
    for name in stages:
        manifests = built(project / "deploy/kserve-stages" / name)
        predictor = spec_of(manifests, "InferenceService")["predictor"]
        wanted = predictor["model"]["runtime"]
        own = [each for each in manifests if each["metadata"]["name"] == wanted]
        [container] = spec_of(own, "ServingRuntime")["containers"]
        assert {"name": "STAGE", "value": name} in container["env"]
        if name == "prod":
            assert predictor["minReplicas"] == 5
            assert container["resources"]["requests"]["cpu"] == "4"
            assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
            assert container["image"].endswith(f"@{DIGEST}")
        else:
            assert predictor["minReplicas"] == 2
            limits = container["resources"]["limits"]
            assert limits == {"ephemeral-storage": "5Gi", "memory": "8192Mi"}


SCALED = {
    "staging": {"gpu_count": 0},
    "one": {"gpu_count": 1, "replicas": 5},
    "two": {"gpu_count": 2, "replicas": 12},
}
BOUNDS = [(2, 8), (5, 8), (12, 24)]


@pytest.fixture(scope="module")
def scaled(generate: Generate) -> Project:
    return generate(gpu_count=2, extras=["kubernetes", "kserve"], stages=SCALED)


def spec_of(manifests: list[Any], kind: str) -> Any:
    [spec] = [each["spec"] for each in manifests if each["kind"] == kind]
    return spec


@pytest.mark.parametrize(
    ("scaler", "kind", "suffix"),
    [("hpa", "HorizontalPodAutoscaler", "Replicas"), ("keda", "ScaledObject", "ReplicaCount")],
)
def test_a_stage_scales_and_has_slices_as_the_components_say(
    scaled: Project, scaler: str, kind: str, suffix: str
) -> None:
    choose(scaled, ["monitoring", "mig", scaler])
    stages = [built(scaled / "deploy/stages" / name) for name in SCALED]
    assert [problems(manifests) for manifests in stages] == [[], [], []]
    bounds = [spec_of(manifests, kind) for manifests in stages]
    assert [(each[f"min{suffix}"], each[f"max{suffix}"]) for each in bounds] == BOUNDS
    pods = [spec_of(manifests, "Deployment")["template"]["spec"] for manifests in stages]
    limits = [pod["containers"][0]["resources"]["limits"] for pod in pods]
    assert [each.get("nvidia.com/mig-1g.10gb", 0) for each in limits] == [0, 1, 2]


@pytest.mark.parametrize("components", [["hpa"], ["keda"], ["knative", "concurrency"]])
def test_a_stage_of_kserve_scales_as_the_components_say(
    scaled: Project, components: list[str]
) -> None:
    choose(scaled, components, "kserve")
    stages = [built(scaled / "deploy/kserve-stages" / name) for name in SCALED]
    assert [inference_services.problems(manifests) for manifests in stages] == [[], [], []]
    bounds = [spec_of(manifests, "InferenceService")["predictor"] for manifests in stages]
    assert [(each["minReplicas"], each["maxReplicas"]) for each in bounds] == BOUNDS


def test_a_stage_with_more_gpus_has_the_shared_memory_that_its_engine_needs(
    generate: Generate,
) -> None:
    stages = {"small": {"gpu_count": 1}, "large": {"gpu_count": 2}}
    project = generate(**PROJECTS["vLLM"], extras=["kubernetes", "kserve"], stages=stages)
    for stage, size in {"small": "64Mi", "large": "2048Mi"}.items():
        manifests = built(project / "deploy/stages" / stage)
        services = built(project / "deploy/kserve-stages" / stage)
        assert [*problems(manifests), *inference_services.problems(services)] == []
        pods = [each["spec"] for each in services if each["kind"] == "ServingRuntime"]
        for pod in (spec_of(manifests, "Deployment")["template"]["spec"], *pods):
            assert pod["volumes"][0] == {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}  # fmt: skip
    assert "{SHM_SIZE:-2048m}" in (project / "deploy/compose.yaml").read_text()
