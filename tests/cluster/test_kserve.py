"""deploy/kserve of generated projects: every combination of components builds, and KServe and Knative would take it."""

from __future__ import annotations

import copy
import itertools
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.inference_services import MODELS, problems, round_trip
from cluster.manifests import RELEASES, Manifest, built, lost
from cluster.manifests import problems as of_deployments
from cluster.projects import LONG, PROJECTS, choose
from support import VENV, Generate, run, step, succeed

from triton_ensemble.facts.catalog import backends

SCALERS = ("", "hpa", "keda")
STANDARD = (("", "raw-deployment", "openshift"), ("", "grpc"), ("", "monitoring"), SCALERS)
KNATIVE = (("knative",), ("", "grpc"), ("", "concurrency"), ("", "canary"))


def combinations() -> Iterator[list[str]]:
    """Yield the components of each combination, in the order that kustomization.yaml has them."""
    for choices in (STANDARD, KNATIVE):
        for chosen in itertools.product(*choices):
            yield [name for name in chosen if name]


def connected(text: str) -> str:
    """Return kustomization.yaml with models from a data connection of OpenShift AI, as its comment has it."""
    address = re.search(r"^    patch: \|\n.*storageUri.*\n", text, re.M)
    connection = re.search(r"^    # (patch: \|.*\n    )# (.*model/storage,.*\n)", text, re.M)
    assert address
    assert connection
    text = text.replace(address[0], "")
    return text.replace(connection[0], f"    {connection[1]}{connection[2]}")


@pytest.mark.parametrize("name", PROJECTS)
def test_each_combination_is_sound(generate: Generate, name: str) -> None:
    project = generate(**PROJECTS[name], extras=["kserve"])
    assert "--exit-timeout-secs=30" in (project / "deploy/serve.sh").read_text()
    file = project / "deploy/kserve/kustomization.yaml"
    texts = [file.read_text()] + [connected(file.read_text())] * (name == "default")
    for text in texts:
        file.write_text(text)
        for components in combinations():
            assert not problems(choose(project, components, "kserve")), components
    assert not problems(choose(project, ["knative", "network-policy"], "kserve"))
    everything = ["openshift", "grpc", "network-policy", "monitoring", "keda"]
    assert not problems(choose(project, everything, "kserve"), RELEASES)


def test_what_kustomization_yaml_says_at_first_is_sound(generate: Generate) -> None:
    for name in ("default", "decoupled"):
        project = generate(**PROJECTS[name], extras=["kserve"])
        manifests = built(project / "deploy/kserve")
        assert not problems(manifests, RELEASES)
        [model] = [m["spec"]["predictor"]["model"] for m in manifests if "predictor" in m.get("spec", {})]  # fmt: skip
        assert model["protocolVersion"] == ("grpc-v2" if name == "decoupled" else "v2")
        uris = re.findall(r"s3://\S+", (project / "deploy/kserve/kustomization.yaml").read_text())
        assert uris == [model["storageUri"]]
        owned = yaml.safe_load((project / ".copier-answers.yml").read_text())["owned"]
        notebooks = [path for path in owned if path.endswith(".ipynb")]
        assert (
            notebooks
            == [f"deploy/kserve/{p}.ipynb" for p in ("grpc", "rest")][: 1 + (name == "default")]
        )
        assert all((project / path).exists() for path in owned)


@pytest.mark.parametrize(
    "components",
    [
        ["hpa", "keda"],
        ["keda", "hpa"],
        ["knative", "hpa"],
        ["knative", "keda"],
        ["concurrency"],
        ["knative", "concurrency", "hpa"],
        ["openshift", "concurrency"],
        ["canary"],
        ["raw-deployment", "canary"],
        ["knative", "raw-deployment"],
        ["knative", "openshift"],
        ["knative", "monitoring"],
        ["raw-deployment", "openshift"],
    ],
    ids=" ".join,
)
def test_components_that_exclude_each_other_do_not_build(
    generate: Generate, components: list[str]
) -> None:
    with pytest.raises(AssertionError, match="test"):
        choose(generate(extras=["kserve"]), components, "kserve")


def test_names_are_the_same_everywhere_and_those_of_kubernetes(generate: Generate) -> None:
    project = generate(project_name="7." + LONG[2:], extras=["kserve", "kubernetes"])
    manifests = choose(project, ["monitoring", "keda"], "kserve")
    [app] = {re.sub("-(grpc|dashboard)$", "", m["metadata"]["name"]) for m in manifests}
    assert {m["metadata"]["name"].removesuffix("-pods") for m in choose(project, [])} == {app}
    assert re.findall(r'up\{job="([^"]*)"\}', yaml.safe_dump(manifests, width=10000))[0] == app
    [service] = [m for m in manifests if m["kind"] == "InferenceService"]
    [metric] = service["spec"]["predictor"]["autoScaling"]["metrics"]
    assert f'job="{app}"' in metric["external"]["metric"]["query"]
    assert 'model!="' in metric["external"]["metric"]["query"]


@pytest.mark.parametrize("components", ["", "grpc", "network-policy"])
def test_a_copy_of_another_name_has_its_own_runtime_and_account(
    generate: Generate, components: str
) -> None:
    """As docs/kserve.md has it, for a share of the requests."""
    deploy = generate(extras=["kserve"]) / "deploy"
    chosen = yaml.safe_load((deploy / "kserve/kustomization.yaml").read_text())
    chosen |= {"namePrefix": "next-", "resources": ["../kserve/base"]}
    chosen["components"] = [f"../kserve/components/{name}" for name in components.split()]
    (deploy / "kserve-next").mkdir()
    (deploy / "kserve-next/kustomization.yaml").write_text(yaml.safe_dump(chosen))
    manifests = built(deploy / "kserve-next")
    assert not problems(manifests)
    assert all(m["metadata"]["name"].startswith("next-") for m in manifests)
    [predictor] = [m["spec"]["predictor"] for m in manifests if m["kind"] == "InferenceService"]
    accounts = [m["metadata"]["name"] for m in manifests if m["kind"] == "ServiceAccount"]
    assert accounts == [predictor["serviceAccountName"]]


def test_the_dashboard_of_openshift_knows_the_runtimes_and_takes_each_file(
    generate: Generate,
) -> None:
    base = generate(extras=["kserve"]) / "deploy/kserve/base"
    for suffix in ("", "-grpc"):
        [runtime] = yaml.safe_load_all((base / f"runtime{suffix}.yaml").read_text())
        assert runtime["kind"] == "ServingRuntime"
        annotations = runtime["metadata"]["annotations"]
        assert annotations["opendatahub.io/template-name"] == f"image-classification{suffix}"
        shown = annotations["opendatahub.io/template-display-name"]
        assert shown == annotations["openshift.io/display-name"]
        assert runtime["metadata"]["labels"]["opendatahub.io/dashboard"] == "true"
        assert annotations["opendatahub.io/apiProtocol"] == ("gRPC" if suffix else "REST")


def test_a_canary_and_claims_of_devices_are_fields_of_kserve(generate: Generate) -> None:
    """As docs/kserve.md has them."""
    manifests = choose(generate(extras=["kserve"]), [], "kserve")
    [service] = [copy.deepcopy(m) for m in manifests if m["kind"] == "InferenceService"]
    [runtime, _] = [copy.deepcopy(m) for m in manifests if m["kind"] == "ServingRuntime"]
    canary = {"trafficPercent": 10, "predictor": {"name": "next", "minReplicas": 1}}
    service["spec"]["canary"] = [canary]
    runtime["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    for manifest in (service, runtime):
        model = partial(round_trip, model=MODELS[manifest["kind"]])
        assert not list(lost(dict(manifest), model))


def test_nothing_of_it_is_written_where_nobody_asked(generate: Generate) -> None:
    assert not (generate(extras=["kubernetes"]) / "deploy/kserve").exists()


BACKENDS = [name for name in backends() if name not in ("ensemble", "auto")]
# The newest release that serves a model of a backend, where a backend is gone.
RELEASE = {name: {"triton_release": row.until} for name, row in backends().items() if row.until}
EXTRAS = [
    ["kserve"],
    ["kserve", "kubernetes"],
    ["kserve", "monitoring"],
    ["kserve", "kubernetes", "monitoring"],
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "gpu_count"),
    [(each, count) for each in BACKENDS for count in range(backends()[each].gpu, 3)],
)
def test_each_backend_with_each_extra(generate: Generate, backend: str, gpu_count: int) -> None:
    kind = "STRING[1]" if backend in ("vllm", "tensorrtllm") else "FP32[4]"
    tensors = {"A": "FP32[4]"} | dict.fromkeys("BC", kind)
    steps = [step("pre", ["A"], ["B"]), step("net", {"b": "B"}, {"c": "C"}, backend)]
    for extras in EXTRAS:
        answers = RELEASE.get(backend, {}) | {"tensors": tensors, "steps": steps}
        project = generate(**answers, extras=extras, gpu_count=gpu_count)
        for components in (["monitoring", "keda"], ["knative", "grpc", "concurrency"]):
            assert not problems(choose(project, components, "kserve")), (extras, components)
        assert (project / "deploy/kubernetes").exists() == ("kubernetes" in extras)
        if "kubernetes" in extras:
            assert not of_deployments(choose(project, ["monitoring", "keda"]))
        for command in (("check",), ("format", "--check")):  # of the notebooks
            ruff = str(VENV / "bin/ruff")
            succeed(run(ruff, *command, "--no-cache", "deploy", cwd=project.path))


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_its_rules_are_sound(generate: Generate, tmp_path: Path) -> None:
    manifests = choose(generate(extras=["kserve"]), ["monitoring"], "kserve")
    [rules] = [m["spec"] for m in manifests if m["kind"] == "PrometheusRule"]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump(rules))
    command = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True)
    assert command.returncode == 0, command.stderr


Parts = dict[str, Any]
BROKEN: dict[str, Callable[[Parts], Any]] = {
    "a typo in the runtime": lambda by: rename(container(by), "readinessProbe", "redinessProbe"),
    "a typo in the formats": lambda by: rename(by["runtime"]["spec"], "supportedModelFormats", "suportedModelFormats"),
    "a typo in the service": lambda by: rename(by["predictor"], "maxReplicas", "maxReplica"),
    "labels in the wrong place": lambda by: by["runtime"].update(labels={"a": "b"}),
    "a text for a number": lambda by: by["predictor"].update(minReplicas="2"),
    "a number for a text": lambda by: model(by)["modelFormat"].update(version=2),
    "another runtime": lambda by: model(by).update(runtime="triton"),
    "another protocol": lambda by: model(by).update(protocolVersion="grpc-v2"),
    "a protocol of another port": lambda by: by["runtime"]["spec"].update(protocolVersions=["grpc-v2"]),
    "a name of a port": lambda by: container(by)["ports"][0].update(name="http"),
    "a port": lambda by: container(by)["ports"][0].update(containerPort=8080),
    "two ports for gRPC": lambda by: container(by)["ports"].append({"name": "grpc", "containerPort": 8001}),
    "a probe of TCP": lambda by: container(by).update(readinessProbe={"tcpSocket": {"port": 8000}}),
    "no slash": lambda by: model(by).update(storageUri="s3://models/a/1"),
    "no models": lambda by: model(by).pop("storageUri"),
    "two places": lambda by: model(by).update(storage={"key": "a", "path": "a/"}),
    "a volume": lambda by: by["runtime"]["spec"]["volumes"].pop(),
    "shared memory": lambda by: by["runtime"]["spec"]["volumes"][0]["emptyDir"].update(sizeLimit="9000Mi"),
    "a limit": lambda by: container(by)["resources"]["limits"].update({"nvidia.com/gpu": 1}),
    "a user": lambda by: container(by)["securityContext"].update(runAsUser=1000),
    "the grace period": lambda by: by["predictor"].update(terminationGracePeriodSeconds=30),
    "a name": lambda by: by["service"]["metadata"].update(name="1.a"),
    "two autoscalers": lambda by: by["predictor"].update(scaleMetric="cpu"),
    "a canary without Knative": lambda by: by["predictor"].update(canaryTrafficPercent=10),
    "Knative with a grace period": lambda by: by["service"]["metadata"]["annotations"].update({"serving.kserve.io/deploymentMode": "Knative"}),
    "no mode": lambda by: by["service"]["metadata"]["annotations"].update({"serving.kserve.io/deploymentMode": "Raw"}),
    "an account": lambda by: by["predictor"].update(serviceAccountName="default"),
    "a budget of other pods": lambda by: by["budget"]["selector"]["matchLabels"].update({"serving.kserve.io/inferenceservice": "a"}),
    "a label": lambda by: by["service"]["metadata"]["labels"].clear(),
}  # fmt: skip


def rename(part: Parts, old: str, new: str) -> None:
    part[new] = part.pop(old)


def container(by: Parts) -> Any:
    return by["runtime"]["spec"]["containers"][0]


def model(by: Parts) -> Any:
    return by["predictor"]["model"]


@pytest.fixture(scope="module")
def sound(generate: Generate) -> list[Manifest]:
    return choose(generate(extras=["kserve"]), ["monitoring", "keda"], "kserve")


@pytest.mark.parametrize("name", BROKEN)
def test_a_mistake_is_found(sound: list[Manifest], name: str) -> None:
    """The check that the tests above use finds something."""
    broken = copy.deepcopy(sound)
    service = next(m for m in broken if m["kind"] == "InferenceService")
    runtime = next(m for m in broken if m["kind"] == "ServingRuntime")
    [budget] = [m["spec"] for m in broken if m["kind"] == "PodDisruptionBudget"]
    assert not problems(broken)
    predictor = service["spec"]["predictor"]
    parts = {"service": service, "runtime": runtime, "predictor": predictor, "budget": budget}
    BROKEN[name](parts)
    assert problems(broken)
