"""The container that answers make: base image, flags, shared memory, and the files that say so. Its tests on an engine are in docker/."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from gatekeeper import Gatekeeper
from support import PIPELINES, UNUSUAL, Generate, step
from support import Project as Generated

from triton_ensemble.facts.project import Project, ProjectError
from triton_ensemble.serve.container import health, images, restart
from triton_ensemble.serve.container.settings import Settings

TWO = {"A": "FP32[4]", "B": "FP32[4]"}


@pytest.fixture(scope="module")
def keeper(template: Path) -> Gatekeeper:
    return Gatekeeper(template)


def container(keeper: Gatekeeper, *steps: Any, **answers: Any) -> dict[str, Any]:
    """Return `graph.container` of the steps, each from A to B unless it says otherwise."""
    given = {"tensors": TWO, "max_batch_size": 8, "steps": [*steps]}
    return dict(keeper.graph({**given, **answers})["container"])


def python(name: str = "a", **fields: Any) -> dict[str, Any]:
    return step(name, ["A"], ["B"], **fields)


@pytest.mark.parametrize(
    ("backend", "image"),
    [
        ("python", "24.12-py3"),
        ("onnxruntime", "24.12-py3"),
        ("vllm", "24.12-vllm-python-py3"),
        ("tensorrtllm", "24.12-trtllm-python-py3"),
    ],
)
def test_the_base_image_is_that_of_the_release_and_the_backends(
    keeper: Gatekeeper, backend: str, image: str
) -> None:
    result = container(keeper, step("a", ["A"], ["B"], backend), triton_release="24.12")
    assert result["images"]["TRITON_IMAGE"] == f"nvcr.io/nvidia/tritonserver:{image}"


@pytest.mark.parametrize(
    ("given", "mib"),
    [
        ({}, 64),
        ({"A": "FP32[3, 1024, 1024]"}, 256),  # 1 + 2.2 * 8 rows of 12 MiB
        ({"A": "STRING[1]", "B": "FP32[-1]"}, 64),  # 1 + 2.2 * 8 rows of 2 MiB
        ({"A": "STRING[1]", "B": "STRING[100]", "instances": 4}, 192),
        ({"A": "STRING[1]", "B": "STRING[1]", "instances": 2, "device": "gpu"}, 192),  # 2 GPUs
        (
            {"A": "STRING[1]", "B": "STRING[1]", "instances": 2, "device": "gpu", "gpus": [1]},
            128,
        ),
        ({"A": "FP32[3, 1024, 1024]", "max_batch_size": 0}, 64),
        ({"A": "FP32[3, 1024, 1024]", "backend": "onnxruntime"}, 64),
        ({"backend": "vllm"}, 2048),  # the GPUs of one engine talk over it
        ({"backend": "tensorrtllm"}, 2048),
    ],
)
def test_shared_memory_follows_processes_and_tensors(
    keeper: Gatekeeper, given: dict[str, Any], mib: int
) -> None:
    tensors = {name: given.get(name, TWO[name]) for name in TWO}
    fields = {name: value for name, value in given.items() if name not in TWO}
    one = step("a", ["A"], ["B"], fields.pop("backend", "python"), **fields)
    assert container(keeper, one, tensors=tensors, gpu_count=2)["shm_mib"] == mib


@pytest.mark.parametrize(
    ("release", "dims", "has"),
    [("25.05", 2048, False), ("25.06", 2048, True), ("26.07", 2048, True), ("26.07", 64, False)],
)
def test_http_takes_large_requests_where_the_release_can_be_told(
    keeper: Gatekeeper, release: str, dims: int, has: bool
) -> None:
    tensors = {**TWO, "A": f"FP32[{dims}, {dims}]"}
    flags = container(keeper, python(), tensors=tensors, triton_release=release)["flags"]
    size = 2 * 8 * 4 * dims * dims
    assert (f"--http-max-input-size={size}" in flags) is has
    assert has or not any("http-max" in flag for flag in flags)


def test_http_takes_what_the_gateway_takes(keeper: Gatekeeper) -> None:
    given: dict[str, Any] = {"extras": ["gateway"], "triton_release": "26.07"}
    flags = container(keeper, python(), **given)["flags"]
    assert "--http-max-input-size=134217728" in flags


def test_flags(keeper: Gatekeeper) -> None:
    always = {
        "--model-control-mode=none",
        "--disable-auto-complete-config",
        "--strict-readiness=true",
        "--exit-timeout-secs=30",
    }
    assert {*container(keeper, python(), extras=[])["flags"]} == always
    more = container(keeper, python(cache=True), extras=["monitoring"])["flags"]
    cache = "--cache-config=local,size=67108864"
    assert {*more} - always == {cache, "--metrics-config=summary_latencies=true"}


def test_models_with_large_files_are_copied_first(keeper: Gatekeeper) -> None:
    tensors = dict.fromkeys("ABCD", "FP32[4]")
    steps = [
        step("z", ["A"], ["B"]),
        step("m", ["B"], ["C"], "onnxruntime"),
        step("a", ["C"], ["D"]),
    ]
    assert container(keeper, *steps, tensors=tensors)["models"] == ["m", "z", "a", "p"]


def test_what_nobody_asked_for_is_not_there(generate: Generate) -> None:
    project = generate(extras=[])
    files = project.files()
    assert not any("monitoring" in name or "gpu" in name for name in files if "deploy/" in name)
    for name in ("README.md", "deploy/compose.yaml", "deploy/serve.sh"):
        text = (project / name).read_text().lower()
        assert not re.search("prometheus|grafana|monitoring|summary_latencies|gpus", text), name


def test_compose_publishes_the_gateway_in_place_of_triton(generate: Generate) -> None:
    """Triton's ports are those of another file, and docker/ starts both."""
    deploy = generate(extras=["gateway"]) / "deploy"
    files = [deploy / "compose.yaml", deploy / "compose.ports.yaml"]
    ports = [
        {
            name: service.get("ports")
            for name, service in yaml.safe_load(f.read_text())["services"].items()
        }
        for f in files
    ]
    usual = yaml.safe_load((generate(extras=[]) / "deploy/compose.yaml").read_text())
    assert ports[0] == {"triton": None, "gateway": ["127.0.0.1:${GATEWAY_PORT:-8080}:8080"]}
    assert ports[1] == {"triton": usual["services"]["triton"]["ports"]}


@pytest.mark.parametrize("name", PIPELINES | UNUSUAL)
def test_the_dashboard_asks_for_metrics_that_triton_has(generate: Generate, name: str) -> None:
    project = generate(**(PIPELINES | UNUSUAL)[name])
    dashboard = json.loads((project / "deploy/monitoring/dashboard.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {metric for text in expressions for metric in re.findall(r"\b(?:nv|step)_\w+", text)}
    steps = {f"step_{kind}_total" for kind in ("rejected", "failed", "process_seconds")}
    assert {metric for metric in used if metric.startswith("step_")} <= steps
    metrics = r"\b(?:nv|step|gateway)_\w+|triton:\w+:rate2m"
    bare = [text for text in expressions if re.search(rf"(?:{metrics})(?!\w|{{job=)", text)]
    assert bare == []
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
    source = yaml.safe_load((project / "deploy/monitoring/grafana-datasource.yml").read_text())
    uids = {panel["datasource"]["uid"] for panel in dashboard["panels"]}
    assert uids == {source["datasources"][0]["uid"]}


def test_a_server_whose_process_has_died_is_stopped_by_one_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Expect no wait for the 30 s in which such a server can't unload the model."""
    done: list[tuple[float, ...]] = []
    died = "m does not answer: status 500: Stub process 'label_0_0' is not healthy."
    answers = iter([(True, "m answers"), (False, died), (False, died), (False, died)])
    monkeypatch.setattr(restart, "FAILURES", tmp_path / "failures")
    monkeypatch.setattr(restart, "LOG", tmp_path / "log")
    monkeypatch.setattr(os, "kill", lambda *signal: done.append(signal))
    monkeypatch.setattr(time, "sleep", lambda seconds: done.append((seconds,)))
    monkeypatch.setattr(health, "check", lambda options: next(answers))
    assert [health.main(["--restart-after=3"]) for _ in range(2)] == [0, 1]
    assert done == [(1,), (1,), (1, signal.SIGTERM), (5,), (-1, signal.SIGKILL)]


def test_the_health_check_stops_a_server_only_where_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Failures before the first answer do not count: models are loading."""
    log, ended, killed = tmp_path / "log", (1, signal.SIGTERM), (-1, signal.SIGKILL)
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(restart, "FAILURES", tmp_path / "failures")
    monkeypatch.setattr(restart, "LOG", log)
    monkeypatch.setattr(os, "kill", lambda process, number: signals.append((process, number)))

    def check(healthy: bool, after: int) -> list[tuple[int, int]]:
        """Return the signals that one check sends."""
        signals.clear()
        monkeypatch.setattr(health, "check", lambda options: (healthy, "answers"))
        assert health.main([f"--restart-after={after}"]) == (0 if healthy else 1)
        return [*signals]

    assert [check(False, 2) for _ in range(3)] == [[]] * 3
    assert check(True, 2) == []
    assert check(False, 2) == []
    assert not log.exists()
    assert check(False, 2) == [ended]
    assert "2 times in a row" in log.read_text()
    assert [check(False, 2) for _ in range(9)] == [[ended]] * 7 + [[killed]] * 2
    assert check(True, 0) == []
    assert [check(False, 0) for _ in range(4)] == [[]] * 4
    assert check(True, 2) == check(False, 2) == []


def settings(project: Generated, **given: str) -> Settings:
    return Settings.read(Project.load(project.path), given)


@pytest.fixture(scope="module")
def large(generate: Generate) -> Generated:
    """A project with all that containers may have."""
    return generate(gpu_count=2, extras=["monitoring", "gateway", "kubernetes", "ray"])


def test_a_checkout_has_containers_of_its_own(generate: Generate, tmp_path: Path) -> None:
    """The same ones from whatever path that leads to it, and docker/ has two of them run."""
    project = generate()
    other = Generated(Path(shutil.copytree(project.path, tmp_path / "it's another")))
    (tmp_path / "link").symlink_to(project.path)
    checkouts = (project, Generated(tmp_path / "link"), other)
    [name, again, others] = (settings(checkout).project_name for checkout in checkouts)
    assert re.fullmatch(r"image-classification-\d+", name)
    assert name == again != others
    image = settings(project).images["IMAGE"]
    assert image == name.replace("classification-", "classification:")
    assert settings(project, COMPOSE_PROJECT_NAME="mine").project_name == "mine"


OF_BUILDS: dict[str, tuple[str, dict[str, str], str]] = {
    "usual": ("IMAGE", {}, "--target copied --build-arg TRITON_IMAGE=nvcr.io/"),
    "base": ("IMAGE", {"TRITON_IMAGE": "mine"}, "--build-arg TRITON_IMAGE=mine ."),
    "empty": ("IMAGE", {"TRITON_IMAGE": ""}, "TRITON_IMAGE=nvcr.io/nvidia/tritonserver:"),
    "torch": ("IMAGE", {"TORCH_INDEX": "https://x"}, "--build-arg TORCH_INDEX=https://x ."),
    "secrets": (
        "IMAGE",
        {"PIP_CONF": "pip.conf", "CA_BUNDLE": "ca.crt"},
        "--secret id=pip.conf,src=pip.conf --secret id=ca.pem,src=ca.crt .",
    ),
    "alone": ("IMAGE", {"MODELS": "alone"}, "--target alone "),
    "published": ("IMAGE", {"IMAGE": "m@sha256:1"}, "docker pull --quiet m@sha256:1"),
    "program": ("IMAGE", {"DOCKER": "docker buildx"}, "docker buildx build --file deploy/Dockerfile"),
    "no program": ("IMAGE", {"DOCKER": " "}, "docker build --file deploy/Dockerfile"),
    "gateway": ("GATEWAY_IMAGE", {}, "deploy/gateway.Dockerfile --tag image-classification-gateway:"),
    "gateway's base": ("GATEWAY_IMAGE", {}, "--build-arg PYTHON_IMAGE=python:3.12-slim ."),
    "ray": ("RAY_IMAGE", {"IMAGE": "m:1"}, "--build-arg IMAGE=m:1 ."),
}  # fmt: skip


@pytest.mark.parametrize("case", OF_BUILDS)
def test_variables_say_how_an_image_is_built(large: Generated, case: str) -> None:
    variable, given, words = OF_BUILDS[case]
    assert words in " ".join(images.list_words(settings(large, **given), variable))


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ({}, ["", ".gpu"]),
        ({"GPUS": "0"}, [""]),
        ({"GPUS": "0", "TRITON_PORTS": "1"}, ["", ".ports"]),
        ({"GPUS": "0", "TRITON_PORTS": "0"}, [""]),
        ({"GPUS": "0", "MODELS": "mounted"}, ["", ".mounted"]),
    ],
)
def test_variables_say_which_files_compose_reads(
    large: Generated, given: dict[str, str], kinds: list[str]
) -> None:
    """The owner's is the last."""
    (large / "deploy/compose.override.yaml").touch()
    words = settings(large, COMPOSE="compose -v", COMPOSE_PROJECT_NAME="p", **given).compose
    (large / "deploy/compose.override.yaml").unlink()
    files = [
        word for kind in [*kinds, ".override"] for word in ("--file", f"deploy/compose{kind}.yaml")
    ]
    assert words == ["compose", "-v", "--project-name", "p", *files]


def test_compose_gets_defaults_and_absolute_paths(large: Generated, tmp_path: Path) -> None:
    usual = settings(large).variables
    assert usual["COMPOSE_PROFILES"] == "monitoring"
    assert usual["GATEWAY_API_KEYS_FILE"] == usual["GATEWAY_KEYS"] == ""
    assert re.fullmatch(r"(\d+k)?", usual["MEMORY"])
    given = {"COMPOSE_PROFILES": "", "MEMORY": "1g", "GATEWAY_API_KEYS_FILE": "keys"}
    named = settings(large, **given, ADMIN_KEY_FILE=f"{tmp_path}/key").variables
    assert (named["COMPOSE_PROFILES"], named["MEMORY"]) == ("", "1g")
    assert named["GATEWAY_API_KEYS_FILE"] == str(large.path.resolve() / "keys")
    assert named["GATEWAY_KEYS"] == "/run/secrets/gateway-keys"
    assert named["ADMIN_KEY_FILE"] == f"{tmp_path}/key"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"MODELS": "none"}, "MODELS is copied, mounted or alone, not none"),
        *(
            ({name: "x 'a"}, f"{name}: No closing quotation; write x 'a with its quotes closed")
            for name in ("DOCKER_OPTIONS", "DOCKER", "COMPOSE")
        ),
    ],
)
def test_a_variable_that_is_wrong(large: Generated, given: dict[str, str], line: str) -> None:
    with pytest.raises(ProjectError, match=f"^{line}$"):
        settings(large, **given)


def test_containers_can_read_what_they_mount(generate: Generate) -> None:
    """Whatever the umask was, a link stays as it is, wherever it leads."""
    project = generate()
    folder = project / "model_repository"
    (folder / "nowhere").symlink_to("missing")
    for path in (project.path, *project.path.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)
    images.make_readable(project.path)
    modes = {f"{path.stat().st_mode & 0o777:o}" for path in folder.rglob("*.pbtxt")}
    assert modes == {"644"}
    assert f"{folder.stat().st_mode & 0o777:o}" == "755"
    assert f"{(project / 'steps').stat().st_mode & 0o777:o}" == "700"
