"""The overlay of each stage: what it changes of deploy/kubernetes, as `kubectl kustomize` builds it."""

from __future__ import annotations

from cluster.manifests import built, problems
from support import Generate, succeed

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
        [service] = [m for m in manifests if m["kind"] == "InferenceService"]
        wanted = service["spec"]["predictor"]["model"]["runtime"]
        [runtime] = [
            m
            for m in manifests
            if m["metadata"]["name"] == wanted
            and m is not service
            and m["kind"] == "ServingRuntime"
        ]
        [container] = runtime["spec"]["containers"]
        assert {"name": "STAGE", "value": name} in container["env"]
        if name == "prod":
            assert service["spec"]["predictor"]["minReplicas"] == 5
            assert container["resources"]["requests"]["cpu"] == "4"
            assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
            assert container["image"].endswith(f"@{DIGEST}")
        else:
            assert service["spec"]["predictor"]["minReplicas"] == 2
            limits = container["resources"]["limits"]
            assert limits == {"ephemeral-storage": "5Gi", "memory": "8192Mi"}
