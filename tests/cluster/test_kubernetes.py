"""deploy/kubernetes of generated projects: every combination of components builds, and a cluster would take it."""

from __future__ import annotations

import copy
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster.manifests import IMAGE_VOLUME_RELEASES, RELEASES, Manifest, built, problems
from cluster.projects import LONG, PROJECTS, chain, choose
from support import Generate, call

from triton_ensemble.serve.container import pin

CHOICES = (
    ("", "monitoring"),
    ("", "hpa", "keda"),
    ("", "routes", "grpc-route"),
    ("", "s3", "image-volume"),
)


def combinations(*more: str) -> Iterator[list[str]]:
    """Yield the components of each combination, also with some that not all projects have."""
    for chosen in itertools.product(*CHOICES, *(("", name) for name in more)):
        yield [name for name in chosen if name]


@pytest.mark.parametrize("name", PROJECTS)
def test_each_combination_is_sound(generate: Generate, name: str) -> None:
    answers = PROJECTS[name]
    project = generate(**answers, extras=["kubernetes"])
    assert not (project / "deploy/monitoring").exists()
    serve = (project / "deploy/serve.sh").read_text()
    assert "--exit-timeout-secs=30" in serve  # what the grace period is compared with
    for components in combinations(*["mig"] * bool(answers.get("gpu_count"))):
        assert not problems(choose(project, components)), components
    everything = [
        "monitoring",
        "hpa",
        "routes",
        "grpc-route",
        "ingress",
        "load-balancer",
        "model-volume",
        "smoke-test",
        *["mig"] * bool(answers.get("gpu_count")),
    ]
    assert not problems(choose(project, everything), RELEASES)
    assert not problems(choose(project, ["image-volume"]), IMAGE_VOLUME_RELEASES)
    [job] = [m for m in choose(project, ["smoke-test"]) if m["kind"] == "CronJob"]
    assert len(job["metadata"]["name"]) <= 52  # a Job's name is longer by eleven


def test_names_are_the_same_everywhere_and_differ_where_projects_do(generate: Generate) -> None:
    names = set()
    for name in (LONG, LONG + "x"):
        project = generate(**chain("python"), project_name=name, extras=["kubernetes"])
        manifests = choose(project, ["monitoring", "keda", "routes", "grpc-route"])
        [app] = {re.sub("-(pods|dashboard)$", "", m["metadata"]["name"]) for m in manifests}
        assert len(app) <= 53
        [alert, *_] = re.findall(r'up\{job="([^"]*)"\}', yaml.safe_dump(manifests, width=10000))
        assert alert == app
        names.add(app)
    assert len(names) == 2


def test_the_gateway_runs_beside_triton_with_what_else_is_chosen(generate: Generate) -> None:
    project = generate(extras=["kubernetes", "gateway"], project_name=LONG)
    for components in combinations("gateway"):
        assert not problems(choose(project, components)), components
    manifests = choose(project, ["monitoring", "gateway", "gateway-route"])
    assert not problems(manifests, RELEASES)
    by_kind = {m["kind"]: m for m in reversed(manifests)}
    assert [c["name"] for c in pod(by_kind)["containers"]] == ["triton", "gateway"]
    images = [c["image"] for c in pod(by_kind)["containers"]]
    assert all(image.startswith("registry.example.com/") for image in images)
    assert {8000, 8001, 8080} == {port["port"] for port in by_kind["Service"]["spec"]["ports"]}


def test_the_gateway_has_the_settings_of_the_owners_configmap(generate: Generate) -> None:
    project = generate(extras=["gateway", "kubernetes"])
    file = project / "deploy/kubernetes/kustomization.yaml"
    name = "image-classification-gateway"
    generator = f"configMapGenerator: [{{ name: {name}, literals: [OTEL_SERVICE_NAME=digits] }}]"
    file.write_text(f"{file.read_text()}\n{generator}\n")
    manifests = choose(project, ["gateway"])
    assert not problems(manifests)
    [settings] = [m["metadata"]["name"] for m in manifests if m["kind"] == "ConfigMap"]
    [deployment] = [m for m in manifests if m["kind"] == "Deployment"]
    triton, gateway = deployment["spec"]["template"]["spec"]["containers"]
    assert gateway["envFrom"][0]["configMapRef"]["name"] == settings
    [variable] = triton["env"]
    assert variable["valueFrom"]["configMapKeyRef"]["name"] == settings


def test_a_route_opens_its_port_to_the_namespace_of_the_gateway_alone(generate: Generate) -> None:
    project = generate(extras=["kubernetes"])
    for component, kind, port in (("routes", "HTTPRoute", "http"), ("grpc-route", "GRPCRoute", "grpc")):  # fmt: skip
        by_kind = {m["kind"]: m for m in choose(project, [component])}
        assert {"HTTPRoute", "GRPCRoute"} & {*by_kind} == {kind}
        *_, rule = by_kind["NetworkPolicy"]["spec"]["ingress"]
        [source] = rule["from"]
        assert source["namespaceSelector"]["matchLabels"]
        assert rule["ports"] == [{"port": port}]


def test_a_load_balancer_serves_the_networks_that_are_named(generate: Generate) -> None:
    manifests = choose(generate(extras=["kubernetes"]), ["load-balancer"])
    named, headless = (m["spec"] for m in manifests if m["kind"] == "Service")
    assert (named["type"], headless["clusterIP"]) == ("LoadBalancer", "None")
    assert "type" not in headless
    [policy] = [m["spec"] for m in manifests if m["kind"] == "NetworkPolicy"]
    [source] = policy["ingress"][-1]["from"]
    assert [source["ipBlock"]["cidr"]] == named["loadBalancerSourceRanges"]


@pytest.mark.parametrize(("extra", "metric"), [("kubernetes", "nv_"), ("kserve", "nv_"), ("ray", "ray_nv_")])  # fmt: skip
def test_grafana_gets_the_dashboard_whose_queries_are_of_one_server(
    generate: Generate, extra: str, metric: str
) -> None:
    """Its sidecar finds the ConfigMap by the label, and writes the files of all of them to one folder."""
    project = generate(extras=[extra, "gateway", "monitoring"])
    [settings] = [m for m in choose(project, ["monitoring"], extra) if m["kind"] == "ConfigMap"]
    assert settings["metadata"]["labels"]["grafana_dashboard"] == "1"
    dashboard = json.loads(settings["data"]["image-classification.json"])
    own = json.loads((project / "deploy/monitoring/dashboard.json").read_text())
    titles = {panel["title"] for panel in own["panels"]} - {p["title"] for p in dashboard["panels"]}
    assert all(title.startswith("Gateway") for title in titles)
    *_, job = dashboard["templating"]["list"]
    assert (job["name"], job["current"]["value"]) == ("job", "image-classification")
    assert job["query"].startswith(f"label_values({metric}")
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} == {"${datasource}"}


def test_keda_keeps_replicas_when_prometheus_does_not_answer(generate: Generate) -> None:
    project = generate(extras=["kubernetes"])
    [spec] = [m["spec"] for m in choose(project, ["keda"]) if m["kind"] == "ScaledObject"]
    assert spec["minReplicaCount"] < spec["fallback"]["replicas"] <= spec["maxReplicaCount"]
    [trigger] = spec["triggers"]
    assert trigger["metricType"] == "AverageValue"  # KEDA before 2.18 has no fallback for another
    assert trigger["metadata"]["ignoreNullValues"] == "false"


def test_the_bucket_is_that_of_the_owners_configmap(generate: Generate) -> None:
    project = generate(extras=["kubernetes"])
    file = project / "deploy/kubernetes/kustomization.yaml"
    comment = re.search(r"^# configMapGenerator:\n(#  .*\n)+", file.read_text(), re.MULTILINE)
    assert comment
    text = file.read_text().replace(comment[0], re.sub("^# ", "", comment[0], flags=re.MULTILINE))
    file.write_text(f"{text}components: [components/s3]\n")
    by_kind = {m["kind"]: m for m in built(file.parent)}
    data = by_kind["ConfigMap"]["data"]
    assert data["MODEL_REPOSITORY"] == "s3://models/image-classification/1"
    refs = container(by_kind)["envFrom"]
    assert refs[0]["configMapRef"]["name"] == by_kind["ConfigMap"]["metadata"]["name"]


def test_pinned_images_are_those_of_the_pods(generate: Generate) -> None:
    project = generate(extras=["kubernetes", "gateway"])
    choose(project, ["image-volume", "gateway"])
    images = {
        suffix: f"ghcr.io/o/m{suffix}@sha256:{64 * 'a'}"
        for suffix in pin.VARIABLES
        if suffix != "-ray"
    }
    named = {pin.VARIABLES[suffix]: image for suffix, image in images.items()}
    assert call(project, "pin", **named).status == 0
    by_kind = {m["kind"]: m for m in built(project / "deploy/kubernetes")}
    assert [c["image"] for c in pod(by_kind)["containers"]] == [
        images["-mounted"],
        images["-gateway"],
    ]
    [reference] = [v["image"]["reference"] for v in pod(by_kind)["volumes"] if "image" in v]
    assert reference == images["-models"]


def test_nothing_of_it_is_written_where_nobody_asked(generate: Generate) -> None:
    project = generate()
    assert not (project / "deploy/kubernetes").exists()


@pytest.mark.parametrize("name", ["default", "one model", "decoupled"])
@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_its_rules_are_sound(generate: Generate, tmp_path: Path, name: str) -> None:
    project = generate(**PROJECTS[name], extras=["kubernetes", "gateway"])
    [rules] = [m["spec"] for m in choose(project, ["monitoring"]) if m["kind"] == "PrometheusRule"]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump(rules))
    run = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


# Requests a minute that fail, of 100, in eight hours; minutes with the alert, and without.
FAILURES = {
    "few all the time": ("0.05x480", [], [300, 479]),
    "many for ten minutes": ("0x420 20x9 0x60", [428, 431], [419, 440]),
    "some for hours": ("0x120 1x300 0x60", [415, 430], [130, 460]),
}


@pytest.mark.parametrize("failures", FAILURES)
@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_failures_that_spend_the_error_budget_are_told(
    generate: Generate, tmp_path: Path, failures: str
) -> None:
    manifests = choose(generate(extras=["kubernetes"]), ["monitoring"])
    [rules] = [m["spec"] for m in manifests if m["kind"] == "PrometheusRule"]
    *_, group = rules["groups"]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [group]}))
    values, firing, silent = FAILURES[failures]
    series = {"answered": "100x480", "refused": "0x480", "failed": values}
    case = {
        "interval": "1m",
        "input_series": [
            {"series": f'triton:{name}:rate2m{{job="image-classification"}}', "values": values}
            for name, values in series.items()
        ],
        "promql_expr_test": [
            {
                "expr": "count(ALERTS)",
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": "{}", "value": 1}] * (minute in firing),
            }
            for minute in [*firing, *silent]
        ],
    }
    tests = {"rule_files": ["rules.yml"], "tests": [case]}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(tests))
    command = ["promtool", "test", "rules", "tests.yml"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


BROKEN: dict[str, Callable[[Any], Any]] = {
    "a typo": lambda by: by["Deployment"]["spec"].update(replica=2),
    "a typo in a custom kind": lambda by: by["ScaledObject"]["spec"].update(maxReplicas=2),
    "a selector": lambda by: by["NetworkPolicy"]["spec"].update(podSelector={"matchLabels": {"app": "a"}}),
    "no selector": lambda by: by["NetworkPolicy"]["spec"].update(podSelector={}),
    "a port": lambda by: by["Service"]["spec"]["ports"][0].update(targetPort="htttp"),
    "a volume": lambda by: pod(by)["volumes"].pop(),
    "shared memory": lambda by: pod(by)["volumes"][0]["emptyDir"].update(sizeLimit="4000Mi"),
    "memory": lambda by: container(by)["resources"]["limits"].update(memory="9000Mi"),
    "the grace period": lambda by: pod(by).update(terminationGracePeriodSeconds=40),
    "the deadline": lambda by: by["Deployment"]["spec"].update(progressDeadlineSeconds=60),
    "replicas": lambda by: by["Deployment"]["spec"].update(replicas=2),
    "a route": lambda by: by["HTTPRoute"]["spec"]["rules"][0]["backendRefs"][0].update(port=80),
    "who ends first": lambda by: pod(by)["containers"][1]["lifecycle"]["preStop"]["exec"].update(command=["sleep", "15"]),
    "a gateway that may write": lambda by: pod(by)["containers"][1]["securityContext"].pop("readOnlyRootFilesystem"),
    "a probe of the gateway": lambda by: pod(by)["containers"][1]["livenessProbe"]["httpGet"].update(port="http"),
    "a name": lambda by: by["Service"]["metadata"].update(name="a.b"),
}  # fmt: skip


def pod(by_kind: dict[str, Any]) -> Any:
    return by_kind["Deployment"]["spec"]["template"]["spec"]


def container(by_kind: dict[str, Any]) -> Any:
    return pod(by_kind)["containers"][0]


@pytest.fixture(scope="module")
def sound(generate: Generate) -> list[Manifest]:
    project = generate(extras=["kubernetes", "gateway"])
    return choose(project, ["monitoring", "keda", "routes", "gateway"])


@pytest.mark.parametrize("name", BROKEN)
def test_a_mistake_is_found(sound: list[Manifest], name: str) -> None:
    """The check that the tests above use finds something."""
    broken = copy.deepcopy(sound)
    BROKEN[name]({m["kind"]: m for m in reversed(broken)})
    assert problems(broken)
