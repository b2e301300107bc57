"""Tests of the container: it answers, has only the rights that it needs, and says what is wrong when a part of it dies."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from triton_ensemble.facts.client import protocols
from triton_ensemble.facts.variables import read_docker
from triton_ensemble.serve.container.compose import (
    Container,
    ContainerError,
    output,
    start_services,
)
from triton_ensemble.serve.container.settings import Settings
from triton_ensemble.testing.under_test import PROJECT, only_where

PYTHON_STEPS = bool(PROJECT.step_modules)

# Kills the processes with a text in their command line, as the kernel does where memory is short.
KILL = """
import os, pathlib, sys
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    process, command = int(path.parent.name), path.read_text().replace(chr(0), " ")
    if sys.argv[1] in command and process not in (1, os.getpid()):
        os.kill(process, 9)
"""


def inside(container: Container, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the container."""
    words = [*read_docker(), "exec", container.id, *command]
    return subprocess.run(words, capture_output=True, text=True)


def python(*arguments: str, url: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the project as a user would type it, with a server elsewhere."""
    environment = os.environ | {"TRITON_URL": url}
    command = (sys.executable, "-m", *arguments)
    return subprocess.run(
        command, cwd=PROJECT.root, env=environment, capture_output=True, text=True
    )


def infer(container: Container) -> subprocess.CompletedProcess[str]:
    """Send the samples to the container."""
    api = protocols(PROJECT)[0]
    return python("triton_ensemble", "infer", url=f"{api}://{container.address(api)}")


def eventually(holds: Callable[[], bool], timeout: float = 120) -> None:
    """Wait until something holds, or fail after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        with contextlib.suppress(ContainerError):  # of a container that is between two starts
            if holds():
                return
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_passes_the_smoke_tests_through_its_published_ports(
    triton: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_GRPC_URL", f"grpc://{triton.address('grpc')}")
    monkeypatch.setenv("TRITON_METRICS_URL", f"http://{triton.address('metrics')}/metrics")
    run = python("pytest", "-q", "tests/test_live.py", url=f"http://{triton.address('http')}")
    assert run.returncode == 0, run.stdout


def test_has_no_rights_that_it_does_not_need(triton: Container) -> None:
    state = triton.inspect()
    assert state["Config"]["User"] == "1000:1000"
    assert state["HostConfig"]["ReadonlyRootfs"]
    assert "CapEff:\t0000000000000000" in inside(triton, "cat", "/proc/1/status").stdout
    assert inside(triton, "touch", "/models/new").returncode
    ports = state["NetworkSettings"]["Ports"].values()
    assert {binding["HostIp"] for port in ports for binding in port or []} == {"127.0.0.1"}


def test_the_apis_of_administrators_are_closed(triton: Container) -> None:
    with pytest.raises(HTTPError) as raised:
        urlopen(f"http://{triton.address('http')}/v2/repository/index", data=b"{}", timeout=10)
    assert raised.value.code == 403
    raised.value.close()


def test_a_server_that_is_killed_is_started_anew(triton: Container) -> None:
    before = triton.inspect()["RestartCount"]
    inside(triton, "python3", "-c", KILL, "tritonserver --model-repository")
    eventually(lambda: triton.inspect()["RestartCount"] > before)
    triton.wait(starting=True)
    assert infer(triton).returncode == 0


@only_where(PYTHON_STEPS and not PROJECT.decoupled)
def test_a_python_process_that_is_killed_ends_requests_with_an_error(triton: Container) -> None:
    """Expect no hang. If Triton does not heal itself, the health check then has the server started anew."""
    inside(triton, "python3", "-c", KILL, "triton_python_backend_stub")
    answer = infer(triton)
    assert answer.returncode == 0 or "not healthy" in answer.stderr
    assert "Traceback" not in answer.stderr
    eventually(lambda: triton.state()[0] == "running" and infer(triton).returncode == 0)


@only_where(Settings.read(PROJECT).has_gateway)
def test_the_gateway_gets_an_answer(
    triton: Container, compose: tuple[str, ...], docker_compose_project_name: str
) -> None:
    command = (*compose, f"--project-name={docker_compose_project_name}")
    output(*command, "up", "--detach", "--no-recreate", "gateway")
    address = output(*command, "port", "gateway", "8080").strip()

    def ready() -> bool:
        with contextlib.suppress(OSError), urlopen(f"http://{address}/readyz", timeout=10):
            return True
        return False

    eventually(ready)


@only_where(PYTHON_STEPS)
def test_shared_memory_that_is_too_small_is_named(
    compose: tuple[str, ...], docker_compose_project_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHM_SIZE", "512k")
    command = (*compose, f"--project-name={docker_compose_project_name}-small")
    try:
        with pytest.raises(ContainerError, match=r"(?i)shared memory"):
            start_services(command, "triton")
    finally:
        output(*command, "down", "--volumes", "--remove-orphans")


def test_stops_gently(triton: Container) -> None:
    output(*read_docker(), "stop", "--time", "40", triton.id)
    assert triton.inspect()["State"]["ExitCode"] == 0
    output(*read_docker(), "start", triton.id)
