"""The container of deploy/kubernetes on the local Triton: its command, ports and probes, as the manifest says them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cluster.pods import Pod
from cluster.served import running, smoke_tests
from support import Generate, Project


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    project = generate.complete(extras=["kubernetes"])
    return project


@pytest.fixture(scope="module")
def pod(project: Project) -> Iterator[Pod]:
    """Run the container until its startup probe passes, in the time that the manifest gives it."""
    file = project / "deploy/kubernetes/base/deployment.yaml"
    pod = Pod(project.path, yaml.safe_load(file.read_text())["spec"]["template"]["spec"])
    probe = pod.container["startupProbe"]
    with running(pod, probe, probe["periodSeconds"] * probe["failureThreshold"]):
        yield pod


def test_the_smoke_tests_pass_through_the_ports_of_the_manifest(project: Project, pod: Pod) -> None:
    printed = smoke_tests(project, pod)
    [passed] = re.findall(r"(\d+) passed", printed)
    assert int(passed) > 20
    assert "skipped" not in printed


def test_its_probes_see_a_dead_process(pod: Pod) -> None:
    for name in ("readinessProbe", "livenessProbe"):
        assert asyncio.run(pod.passes(pod.container[name])), name
    for process in stubs(pod):
        os.kill(process, signal.SIGKILL)
    for name in ("readinessProbe", "livenessProbe"):
        assert not asyncio.run(pod.passes(pod.container[name])), name


def stubs(pod: Pod) -> list[int]:
    """Return the Python processes of the container's server."""
    children = Path(f"/proc/{pod.process.pid}/task/{pod.process.pid}/children").read_text().split()
    named = ((int(child), Path(f"/proc/{child}/cmdline").read_bytes()) for child in children)
    found = [child for child, command in named if b"triton_python_backend_stub" in command]
    assert found
    return found
