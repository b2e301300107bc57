"""The container of deploy/kubernetes as Kubernetes would run it: its image, security context, volumes, ports and probes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from bucket import store
from support import Generate, Project, succeed

from docker.checkouts import image_of
from docker.pods import ARBITRARY, passes, running, started
from docker.stand_in import docker


@pytest.fixture(scope="module")
def project(generate: Generate, options: list[str]) -> Iterator[Project]:
    project = generate(extras=["kubernetes"])
    succeed(project.make("image", *options))
    yield project
    docker("image", "rm", image_of(project))


@pytest.fixture
def pod(project: Project) -> dict[str, Any]:
    text = (project / "deploy/kubernetes/base/deployment.yaml").read_text()
    spec: dict[str, Any] = yaml.safe_load(text)["spec"]["template"]["spec"]
    return spec


def smoke_test(project: Project, server: str) -> str:
    """Return what the job of components/smoke-test prints, in the network of a server's container."""
    text = (project / "deploy/kubernetes/components/smoke-test/job.yaml").read_text()
    pod = yaml.safe_load(text)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    *shell, command = container["command"]
    command = command.replace("http://image-classification:", "http://127.0.0.1:")
    rights = ("--read-only", "--cap-drop=ALL", f"--network=container:{server}", "--entrypoint=")
    return docker("run", "--rm", *rights, image_of(project), *shell, command)


@pytest.mark.parametrize("user", ["1000:1000", ARBITRARY])
def test_it_starts_answers_and_its_probes_see_a_dead_process(
    project: Project, pod: dict[str, Any], user: str
) -> None:
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (
        1000,
        1000,
    )
    with running(pod, image_of(project), user) as (name, ports):
        assert started(pod, ports[pod["containers"][0]["startupProbe"]["httpGet"]["port"]])
        for scheme in ("http", "grpc"):
            printed = succeed(project.make("infer", TRITON_URL=f"{scheme}://{ports[scheme]}"))
            assert "LABEL: 7" in printed
        with urlopen(f"http://{ports['metrics']}/metrics", timeout=5) as answer:
            assert b"nv_inference_request_summary_us" in answer.read()  # the alert TritonSlow
        assert smoke_test(project, name) == "image_classification answers"
        assert passes(pod, name, "readinessProbe")
        assert passes(pod, name, "livenessProbe")
        for line in docker("top", name, "-eo", "pid,args").splitlines():
            if "triton_python_backend_stub" in line:
                os.kill(int(line.split()[0]), signal.SIGKILL)
        assert not passes(pod, name, "readinessProbe")
        assert not passes(pod, name, "livenessProbe")


def test_a_stop_waits_as_long_as_the_grace_period_says(
    project: Project, pod: dict[str, Any]
) -> None:
    [container] = pod["containers"]
    with running(pod, image_of(project), "1000:1000") as (name, ports):
        assert started(pod, ports["http"])
        began = time.monotonic()
        docker("exec", name, *container["lifecycle"]["preStop"]["exec"]["command"])
        docker("stop", f"--time={pod['terminationGracePeriodSeconds']}", name)
        assert time.monotonic() - began < pod["terminationGracePeriodSeconds"]
        assert docker("inspect", "--format={{.State.ExitCode}}", name) == "0"


@pytest.mark.parametrize(
    ("tmp", "needs_keys", "says"),
    [
        ("64k", False, "has 0.0 GB, and Triton copies it to /tmp, which has 0.0 GB free; make room there"),
        ("1m", True, "there is no key, and no role (AWS_EC2_METADATA_DISABLED is true); set AWS_ACCESS_KEY_ID and "),
    ],
    ids=["a small /tmp", "no role"],
)  # fmt: skip
def test_a_bucket_that_it_can_not_load_is_one_line(
    project: Project, tmp: str, needs_keys: bool, says: str
) -> None:
    with store() as s3:
        s3.client().put_object(Bucket="models", Key="p/net/config.pbtxt", Body=bytes(100_000))
        s3.needs_keys = needs_keys
        address = f"s3://{s3.url}/models/p"
        rights = ("--read-only", "--cap-drop=ALL", "--network=host", f"--tmpfs=/tmp:size={tmp}")
        given = (f"--env=MODEL_REPOSITORY={address}", "--env=AWS_EC2_METADATA_DISABLED=true")
        command = [os.environ["DOCKER"], "run", "--rm", *rights, *given, image_of(project)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith(f"MODEL_REPOSITORY: {address}: {says}")
