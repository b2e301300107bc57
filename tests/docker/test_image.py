"""The generated image and its containers, on a real engine."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import zipfile
from pathlib import Path

import pytest
from support import PIPELINES, Generate, Project, step, succeed

from docker.checkouts import ALONE, compose_project, image_of, inspect, left, serving
from docker.stand_in import docker


@pytest.mark.parametrize(
    "name", ["default", pytest.param("my own", marks=pytest.mark.matrix), "image in one process"]
)
def test_a_project_passes_its_container_tests(
    generate: Generate, options: list[str], name: str
) -> None:
    project = generate(**PIPELINES[name])
    image = image_of(project)
    printed = succeed(project.make("test-docker", *options, REQUIRE_DOCKER="1"))
    print(printed[printed.index("test session starts") :])
    print(image, f"{inspect(image)['Size'] / 1e6:.0f} MB")
    assert re.search(r"^=+ 7 passed", printed, re.MULTILINE)
    test = f"{compose_project(project)}-test"
    assert left(test) == left(f"{test}-small") == []


def test_make_up_serves_and_make_down_leaves_nothing(
    default_project: Project, options: list[str]
) -> None:
    with serving(default_project, *options) as urls:
        for url in urls.values():
            printed = succeed(default_project.make("infer", TRITON_URL=url))
            assert re.findall(r"LABEL: (.*)", printed) == ["7", "7", "2", "6"]
        assert len(left(compose_project(default_project))) >= 2
    assert left(compose_project(default_project)) == []


def test_two_checkouts_serve_beside_each_other(
    default_project: Project, options: list[str], tmp_path: Path
) -> None:
    other = Project(Path(shutil.copytree(default_project.path, tmp_path / "other")))
    with serving(default_project, *options) as urls:
        with serving(other, *options):
            assert len(left(compose_project(other))) >= 2
        succeed(default_project.make("infer", TRITON_URL=urls["http"]))
        taken = f"HTTP_PORT={urls['http'].rpartition(':')[2]}"
        refused = other.make("up", *options, *ALONE[1:], taken)
        succeed(other.make("down", "ARGS=--volumes"))
    assert refused.returncode != 0
    holder = f"{compose_project(default_project)}[-_]triton[-_]1 of {default_project / 'deploy'};"
    wanted = f"is in use, by container {holder} choose others, or free ones: HTTP_PORT=0"
    assert re.search(wanted, refused.stderr)


def test_the_data_of_prometheus_outlive_make_down(
    generate: Generate, options: list[str], prometheus_image: str, grafana_image: str
) -> None:
    project = generate(project_name="kept")
    names = ("HTTP_PORT", "GRPC_PORT", "METRICS_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT")
    images = (f"PROMETHEUS_IMAGE={prometheus_image}", f"GRAFANA_IMAGE={grafana_image}")
    succeed(project.make("up", *options, *images, *(f"{name}=0" for name in names)))
    succeed(project.make("down"))
    assert left(compose_project(project)) == [f"{compose_project(project)}_prometheus"]
    succeed(project.make("down", "ARGS=--volumes"))
    assert left(compose_project(project)) == []
    docker("image", "rm", image_of(project))


def build(project: Project, *options: str) -> str:
    """Build the image. Return what Docker says of it, which goes to stderr."""
    run = project.make("image", *options)
    succeed(run)
    return run.stdout + run.stderr


def test_the_image_is_built_without_a_warning(default_project: Project, options: list[str]) -> None:
    assert "warn" not in build(default_project, *options, "DOCKER_OPTIONS=--no-cache").lower()


def test_a_change_of_code_builds_no_package_and_no_model_anew(
    generate: Generate, options: list[str]
) -> None:
    project = generate(project_name="changed")
    build(project, *options)
    before = inspect(image_of(project))["RootFS"]["Layers"]
    source = project / "steps/label.py"
    source.write_text(f"{source.read_text()}# edited\n")
    assert len(re.findall(r"^#\d+ CACHED", build(project, *options), re.MULTILINE)) >= 3
    after = inspect(image_of(project))["RootFS"]["Layers"]
    assert after != before
    # The step's, that of the ensemble after it, the check, and what the health check needs.
    assert after[:-4] == before[:-4]
    docker("image", "rm", image_of(project))


def test_an_update_of_the_toolkit_builds_no_package_and_no_model_anew(
    generate: Generate, options: list[str]
) -> None:
    """The cache holds as long as what the build itself runs of the toolkit stays the same."""
    project = generate(project_name="updated")
    build(project, *options)
    before = inspect(image_of(project))["RootFS"]["Layers"]
    [wheel] = (project / "vendor").glob("*.whl")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("triton_ensemble/newer.py", "")
    build(project, *options)
    after = inspect(image_of(project))["RootFS"]["Layers"]
    assert after[:-1] == before[:-1]
    assert after != before
    docker("image", "rm", image_of(project))


def test_labels_say_what_the_image_is(
    default_project: Project, options: list[str], triton_image: str
) -> None:
    build(default_project, *options)
    config = inspect(image_of(default_project))["Config"]
    labels = {key.rpartition(".")[2]: value for key, value in config["Labels"].items()}
    assert labels["title"] == "image_classification"
    assert labels["name"] == triton_image
    assert config["User"] == "1000:1000"


FILES = "find / -xdev -type f -not -path '/proc/*' 2>/dev/null || true"


def test_nothing_but_what_is_served_is_in_the_image(
    default_project: Project, options: list[str], triton_image: str
) -> None:
    """It holds no secret, no tool of the build and no test."""
    build(default_project, *options)
    shell = ("run", "--rm", "--entrypoint=sh", image_of(default_project), "-c")
    before, after = (
        {*docker("run", "--rm", "--entrypoint=sh", image, "-c", FILES).split("\n")}
        for image in (triton_image, image_of(default_project))
    )
    known = re.compile(
        r"/(models|opt/samples|usr/local/lib/python3[.\d]*/dist-packages)/"
        r"|/opt/(serve\.sh|triton_ensemble\.whl|vendor/project\.json)$"
    )
    assert [path for path in after - before if not known.match(path)] == []
    assert docker(*shell, "ls /models").split() == [
        "classify",
        "image_classification",
        "label",
        "preprocess",
    ]
    assert docker(*shell, "find /run/secrets /root/.cache -type f 2>/dev/null || true") == ""


def test_models_can_be_mounted(generate: Generate, options: list[str]) -> None:
    project = generate(project_name="mounted")
    with serving(project, *options, "MODELS=mounted") as urls:
        succeed(project.make("infer", TRITON_URL=urls["http"]))
    listed = docker("run", "--rm", "--entrypoint=sh", image_of(project), "-c", "ls /models || true")
    assert listed == ""
    docker("image", "rm", image_of(project))


def failure(project: Project, *options: str) -> str:
    run = project.make("image", *options)
    assert run.returncode != 0
    return run.stdout + run.stderr


def test_a_package_that_no_step_declares_stops_the_build(
    generate: Generate, options: list[str]
) -> None:
    project = generate(project_name="undeclared")
    source = project / "steps/label.py"
    source.write_text(
        source.read_text().replace("import numpy", "import requests\nimport numpy", 1)
    )
    line = "label: ModuleNotFoundError: No module named 'requests'"
    assert line in failure(project, *options)


def test_a_package_that_is_not_locked_stops_the_build(
    generate: Generate, options: list[str]
) -> None:
    steps = [step("a", ["A"], ["B"], requirements=["six"])]
    project = generate(
        project_name="unlocked", tensors={"A": "FP32[1]", "B": "FP32[1]"}, steps=steps
    )
    assert "six: not in requirements.lock; run `make lock`" in failure(project, *options)


def test_a_package_with_another_hash_stops_the_build(
    generate: Generate, options: list[str]
) -> None:
    project = generate(project_name="tampered")
    lock = project / "requirements.lock"
    head, entry, rest = re.split(
        r"^(pillow==.*(?:\n    --hash.*)+)", lock.read_text(), maxsplit=1, flags=re.M
    )
    lock.write_text(head + re.sub(r"sha256:.{8}", "sha256:00000000", entry + rest))
    assert "DO NOT MATCH THE HASHES" in failure(project, *options)


def test_without_an_engine(default_project: Project) -> None:
    """The tests are skipped with the reason, or fail where an engine is required."""
    nowhere = {"DOCKER_HOST": "unix:///nowhere"}
    run = default_project.make("test-docker", REQUIRE_DOCKER="", **nowhere)
    assert "7 skipped" in succeed(run)
    run = default_project.make("test-docker", REQUIRE_DOCKER="1", **nowhere)
    assert run.returncode != 0
    assert "REQUIRE_DOCKER=1, and no engine answers" in run.stdout
    run = default_project.make("test-docker", "DOCKER=nodocker", REQUIRE_DOCKER="1")
    assert "there is no nodocker; install Docker" in run.stdout


def test_a_server_that_cannot_start_is_explained_by_make_up(
    generate: Generate, options: list[str]
) -> None:
    project = generate(project_name="failing")
    try:
        run = project.make("up", *options, *ALONE, SHM_SIZE="512k")
        assert run.returncode != 0
        assert "Unable to initialize shared memory" in run.stderr
        assert "Traceback" not in run.stderr
        # Not started again and again.
        assert docker("ps", "--quiet", "--filter", "name=failing") == ""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = f"HTTP_PORT={taken.getsockname()[1]}"
            run = project.make("up", *options, port, *ALONE[1:])
        assert run.returncode != 0
        assert re.search("already (allocated|in use)", run.stderr)
        held = rf"port \d+ is in use, by process {os.getpid()} \(.*\); choose others, or free ones: HTTP_PORT=0"
        assert re.search(held, run.stderr)
    finally:
        succeed(project.make("down", "ARGS=--volumes"))
    docker("image", "rm", image_of(project))


def test_a_test_that_fails_shows_the_containers_log(generate: Generate, options: list[str]) -> None:
    project = generate(project_name="logged")
    tests = project / "tests/docker/test_container.py"
    failing = "\n\ndef test_fails(triton: Container) -> None:\n    raise AssertionError\n"
    tests.write_text(tests.read_text() + failing)
    run = project.make("test-docker", *options, PYTEST_ADDOPTS="-k test_fails")
    assert re.search(r"1 failed, \d+ deselected", run.stdout)
    assert "successfully loaded 'logged'" in run.stdout.partition("Triton's log")[2]
    docker("image", "rm", image_of(project))


@pytest.mark.skipif(not shutil.which("docker-compose"), reason="compose 1 is not installed")
@pytest.mark.parametrize("gpus", ["0", "2"])
def test_compose_1_reads_the_files(generate: Generate, gpus: str) -> None:
    """The file of version 2 is tested in ../test_container.py."""
    project = generate(gpu_count=2)
    files = [project / f"deploy/compose{kind}.yaml" for kind in ("", ".gpu", ".mounted")]
    chosen = [
        f"--file={file}" for file in files if gpus != "0" or file.suffixes != [".gpu", ".yaml"]
    ]
    compose = ["docker-compose", "--profile=monitoring", *chosen, "config"]
    named = os.environ | {"IMAGE": "digits"}
    run = subprocess.run(compose, capture_output=True, text=True, env=named)
    succeed(run)
    assert ("capabilities" in run.stdout) is (gpus == "2")
