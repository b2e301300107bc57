"""deploy/tir of generated projects: what TIR's SDK makes of it, and its servers on the local Triton.

No account was asked. The SDK is asked where one is installed: `pip install e2enetworks==1.4.9` in another environment,
whose Python TIR_PYTHON names. A server here stands for TIR.
"""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml
from cluster.pods import Pod
from cluster.served import running, smoke_tests
from support import ROOT, SOURCES, Generate, Project, run, step, succeed
from web import Handler, serve_http

SDK = os.environ.get("TIR_PYTHON", sys.executable)
# Of SDK 1.4.9, without mpirun; the folder is another here.
FIXED = [
    "tritonserver",
    "--exit-on-error=false",
    "--model-store=/models",
    "--grpc-port=9000",
    "--http-port=8080",
    "--metrics-port=8082",
    "--allow-grpc=true",
    "--allow-http=true",
]
PORTS = [
    {"name": name, "containerPort": port}
    for name, port in (("http", 8080), ("grpc", 9000), ("metrics", 8082))
]
NO_PACKAGES = {
    "project_name": "plain",
    "tensors": {name: "FP32[4]" for name in "ABC"},
    "steps": [step("pre", ["A"], ["B"]), step("net", {"x": "B"}, {"y": "C"}, "onnxruntime")],
}


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    project = generate.complete(extras=["tir"])
    return project


@pytest.fixture(scope="module")
def plain(generate: Generate) -> Project:
    """Return a project whose steps need no packages, which TIR's own image can serve."""
    project = generate.complete(**NO_PACKAGES, extras=["tir"])
    return project


def write(project: Project, **fields: Any) -> None:
    """Change fields of endpoint.yml, as its owner would. None takes one out."""
    file = project / "deploy/tir/endpoint.yml"
    plan = {"plan": "CPU-C3-4-8GB-0"}
    given = yaml.safe_load(file.read_text()) | plan | fields
    file.write_text(yaml.safe_dump({k: v for k, v in given.items() if v is not None}))


def create(project: Project, *arguments: str, **more: str) -> tuple[int, str]:
    """Return the exit status of the command and what it said."""
    python = SDK if not arguments else sys.executable
    process = project.run(python, "-m", "triton_ensemble", "tir", *arguments, **more)
    assert "Traceback" not in process.stderr
    return process.returncode, process.stdout + process.stderr


def test_nothing_of_it_is_written_where_nobody_asked(generate: Generate) -> None:
    assert not (generate() / "deploy/tir").exists()


def test_the_owner_says_which_plan_and_the_image_is_one_with_the_packages(project: Project) -> None:
    first = create(project, "--print")
    assert first[0] == 1
    assert re.search(
        r"endpoint.yml: plan is .*; write the name of a plan, as CPU-C3-4-8GB-0", first[1]
    )
    write(project)
    status, printed = create(project, "--print")
    assert status == 1
    assert 'image is "NAMESPACE/image-classification:1"; write namespace/name:tag' in printed
    write(project, image="mine/image-classification:1")
    status, printed = create(project, "--print")
    assert status == 0
    [(method, arguments)] = json.loads(printed).items()
    assert method == "create"
    assert arguments["args"] == ["--http-port=8080", "--grpc-port=9000", "--metrics-port=8082"]
    assert arguments["probe_url"] == "/v2/models/image_classification/ready"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a field": ({"worker": 1}, "worker is not a field; write one of name"),
    "a part": ({"workers": {"min": 1, "most": 2}}, "workers.most is not a field"),
    "a name": ({"name": "Plain_1"}, 'name is "Plain_1"; write small letters'),
    "workers": ({"workers": {"min": 3, "max": 2}}, "workers are 3 to 2; write min <= max"),
    "too many": ({"workers": {"min": 1, "max": 65}}, "max from 1 to 64"),
    "a number": ({"disk_gb": "30"}, 'disk_gb is "30"; write a number'),
    "no folder": ({"models": "s3://bucket"}, "write s3://bucket/prefix/version"),
    "no models": ({"models": None}, "TIR's own image does not have models"),
    "both": ({"image": "a/b:1"}, "image has the models inside"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_a_line(generate: Generate, name: str) -> None:
    project = generate(**NO_PACKAGES, extras=["tir"])
    fields, said = WRONG[name]
    write(project, **{"models": "s3://bucket/plain/1", **fields})
    status, printed = create(project, "--print")
    assert status == 1
    assert said in printed
    assert len(printed.splitlines()) == 1


def test_the_check_says_what_tirs_own_image_lacks(generate: Generate) -> None:
    project = generate(extras=["tir"])
    write(project, image=None, registry_namespace=None)
    printed = project.make("check").stdout
    [line] = [line for line in printed.splitlines() if "tir-image" in line]
    assert (
        "TIR's own image lacks pillow>=10.1, which step preprocess needs; make a custom image"
        in line
    )


def test_tirs_own_image_lacks_what_only_another_of_nvidias_has(generate: Generate) -> None:
    steps = [step("m", ["A"], ["B"], "vllm")]
    project = generate(
        tensors=dict.fromkeys("AB", "STRING[1]"), steps=steps, extras=["tir"], gpu_count=1
    )
    file = project / "deploy/tir/endpoint.yml"
    assert "image" in yaml.safe_load(file.read_text())
    assert "tir-image" not in project.make("check").stdout
    write(project, image=None)
    assert (
        "TIR's own image lacks the backend vllm; make a custom image"
        in project.make("check").stdout
    )


@contextmanager
def answering(handle: Any) -> Iterator[str]:
    """Yield the address of a server whose requests `handle` answers: method, path, headers, body -> status, body."""

    class Answering(Handler):
        def do_GET(self) -> None:
            status, headers, body = handle(self, self.read_body())
            self.respond(status, body, headers)

        do_POST = do_GET

    with serve_http(Answering) as place:
        yield f"http://{place}/"


PLAN = {"series": "CPU-C3", "sku_type": "x", "cpu": 4, "memory": 8, "gpu": 0, "sku_id": 77}
PLAN |= {"is_inventory_available": True, "is_free": False}
PLANS: dict[str, Any] = {"data": {"CPU": [PLAN], "GPU": []}}


def account(url: str) -> dict[str, str]:
    """Return the SDK's environment, with which it asks the server that stands for TIR."""
    variables = {"API_KEY": "KEY", "ACCESS_TOKEN": "TOKEN", "TEAM_ID": "5", "PROJECT_ID": "6"}
    more = {"LOCATION": "Delhi", "API_HOST": url}
    return {f"E2E_TIR_{name}": value for name, value in {**variables, **more}.items()}


def through_the_sdk(project: Project, refuse: bool = False) -> tuple[dict[str, Any], int, str]:
    """Return what the SDK sends TIR to make the endpoint, and the end of the command."""
    sent: list[dict[str, Any]] = []

    def handle(request: Any, body: bytes) -> tuple[int, dict[str, str], bytes]:
        answer: dict[str, Any] = PLANS
        if request.command == "POST":
            sent.append(json.loads(body))
            assert request.headers["Authorization"] == "Bearer TOKEN"
            assert request.path.startswith("/api/v1/gpu/teams/5/projects/6/serving/inference/?")
            answer = {"errors": "no such image"} if refuse else {"data": {"id": 9}}
        return 400 if refuse and sent else 200, {}, json.dumps(answer).encode()

    with answering(handle) as url:
        status, printed = create(project, **account(url))
    assert "KEY" not in printed
    [payload] = sent or [{}]
    return payload, status, printed


has_sdk = pytest.mark.skipif(
    "TIR_PYTHON" not in os.environ and not importlib.util.find_spec("e2enetworks"),
    reason="TIR's SDK is not installed; TIR_PYTHON names a Python that has it",
)


@has_sdk
def test_the_sdk_lists_plans_as_the_file_names_them(project: Project) -> None:
    [code] = re.findall("-c '(.*)'", (ROOT / "docs/tir.md").read_text())
    with answering(lambda *_: (200, {}, json.dumps(PLANS).encode())) as url:
        listed = succeed(project.run(SDK, "-c", code, **account(url))).splitlines()
    write(project, plan=listed[-1], image="mine/image-classification:1")
    assert create(project, "--print")[0] == 0


@has_sdk
def test_the_sdk_sends_what_the_file_says_of_tirs_own_image(plain: Project) -> None:
    scale = {"workers": {"min": 0, "max": 3}, "scale": {"metric": "cpu", "value": 70}}
    write(
        plain,
        plan="CPU-C3-x-4-8-0",
        models="s3://https://store.example.com/bucket/plain/2",
        model_repository=4,
        **scale,
    )
    payload, status, printed = through_the_sdk(plain)
    assert status == 0
    assert "endpoint plain, number 9: TIR shows when it runs\n" in printed
    assert (payload["framework"], payload["model_id"], payload["path"]) == ("triton", 4, "plain/2")
    assert payload["sku_id"] == 77
    container = payload["custom_endpoint_details"]["container"]
    assert container["container_name"] == "aimle2e/tritonserver:24.02-py3-01"
    args = yaml.safe_load(base64.b64decode(payload["detailed_info"]["args"]))
    assert args[:4] == ["mpirun", "--allow-run-as-root", "-n", "1"]
    assert sorted(args[4:]) == sorted(w.replace("=/models", "=/mnt/models") for w in FIXED)
    policy = payload["auto_scale_policy"]
    assert (policy["min_replicas"], policy["max_replicas"]) == (0, 3)
    assert policy["rules"][0]["value"] == 70


@has_sdk
def test_the_sdk_sends_the_image_and_its_ports(project: Project) -> None:
    write(project, plan="CPU-C3-x-4-8-0", image="mine/image-classification:1", registry_namespace=3)
    payload, status, _ = through_the_sdk(project)
    assert status == 0
    container = payload["custom_endpoint_details"]["container"]
    assert container["container_name"].endswith("/mine/image-classification:1")
    assert container["private_image_details"] == {"registry_namespace_id": 3}
    args = yaml.safe_load(base64.b64decode(payload["detailed_info"]["args"]))
    assert args == ["--http-port=8080", "--grpc-port=9000", "--metrics-port=8082"]
    assert "auto_scale_policy" not in payload
    _, status, printed = through_the_sdk(project, refuse=True)
    assert status == 1
    assert printed.endswith("TIR refuses it: ERROR: no such image\n")


@contextmanager
def serving(project: Project, **container: Any) -> Iterator[Pod]:
    """Run a container of TIR's until it is live."""
    pod = Pod(project.path, {"containers": [{"ports": PORTS, **container}]})
    live = {"httpGet": {"port": "http", "path": "/v2/health/live"}}
    with running(pod, live, 60):
        yield pod


def is_ready(pod: Pod, path: str) -> bool:
    return asyncio.run(pod.passes({"httpGet": {"port": "http", "path": path}}))


def test_the_smoke_tests_pass_with_tirs_own_arguments(project: Project) -> None:
    """Nothing that is generated relies on a flag of ours."""
    with serving(project, command=FIXED) as pod:
        smoke_tests(project, pod)


def test_the_image_takes_tirs_ports(project: Project) -> None:
    write(project, image="mine/image-classification:1")
    [arguments] = json.loads(create(project, "--print")[1]).values()
    with serving(project, args=arguments["args"]) as pod:
        assert is_ready(pod, arguments["probe_url"])
        assert "LABEL" in succeed(project.make("infer", TRITON_URL=pod.url("http")))


def test_a_broken_ensemble_is_a_running_endpoint(plain: Project) -> None:
    """So readiness is asked of the ensemble."""
    with serving(plain, command=FIXED) as pod:
        assert is_ready(pod, "/v2/models/plain/ready")
    config = plain / "model_repository/plain/config.pbtxt"
    whole = config.read_text()
    config.write_text(whole.replace('value: "B"', 'value: "Q"', 1))
    try:
        with serving(plain, command=FIXED) as pod:
            assert is_ready(pod, "/v2/health/live")
            assert not is_ready(pod, "/v2/models/plain/ready")
    finally:
        config.write_text(whole)


def test_the_client_takes_the_endpoints_path_and_token(plain: Project) -> None:
    base = "/project/p-6/endpoint/is-9"
    with serving(plain, command=FIXED) as pod:

        def handle(request: Any, body: bytes) -> tuple[int, dict[str, str], bytes]:
            if request.headers["Authorization"] != "Bearer TOKEN":
                return 401, {}, b"no token"
            assert request.path.startswith(f"{base}/v2/")
            url = pod.url("http") + request.path.removeprefix(base)
            forward = Request(url, body or None, dict(request.headers), method=request.command)
            try:
                with urlopen(forward, timeout=10) as answer:
                    return answer.status, dict(answer.headers), answer.read()
            except HTTPError as error:
                return error.code, {}, error.read()

        with answering(handle) as url, plain.client(f"{url.rstrip('/')}{base}") as refused:
            assert not refused.ready()
            headers = {"Authorization": "Bearer TOKEN"}
            with type(refused)(f"{url.rstrip('/')}{base}", headers=headers) as client:
                assert client.ready()
                assert client.infer({"A": [[1, 2, 3, 4]]})["C"].shape == (1, 4)


def test_its_answer_to_a_missing_sdk_is_a_line(plain: Project, tmp_path: Path) -> None:
    write(plain, models="s3://bucket/plain/1")
    blocked = tmp_path / "e2enetworks.py"
    blocked.write_text("raise ModuleNotFoundError(\"No module named 'e2enetworks'\")\n")
    command = (sys.executable, "-m", "triton_ensemble", "tir")
    process = run(*command, cwd=plain.path, PYTHONPATH=f"{tmp_path}:{SOURCES}")
    assert process.returncode == 1
    assert process.stderr == (
        "No module named 'e2enetworks'; in a project run: make tir, elsewhere: pip install e2enetworks==1.4.9\n"
    )


def test_make_tir_prints_the_call(plain: Project) -> None:
    write(plain, models="s3://bucket/plain/1")
    assert "create_triton" in json.loads(succeed(plain.make("tir", "PRINT=1")))
