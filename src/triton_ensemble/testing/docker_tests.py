{% set api = 'grpc' if graph.decoupled else 'http' %}
# Managed by triton-ensemble-template: edits are merged by `make update`.
"""The container answers, has no rights that it does not need, and says what is wrong when a part of it dies."""

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

from triton_ensemble.container.compose import DOCKER, Container, ContainerError, output{{ ", up" if graph.python_models }}
from triton_ensemble.project import ROOT

# Kills the processes with a text in their command line, as the kernel does where memory is short.
KILL = """
import os, pathlib, sys
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    process, command = int(path.parent.name), path.read_text().replace(chr(0), " ")
    if sys.argv[1] in command and process not in (1, os.getpid()):
        os.kill(process, 9)
"""


def inside(container: Container, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([DOCKER, "exec", container.id, *command], capture_output=True, text=True)


def python(*arguments: str, url: str) -> subprocess.CompletedProcess[str]:
    """A command of the project, as one who types it sees it, with a server elsewhere."""
    environment = os.environ | {"TRITON_URL": url}
    command = (sys.executable, "-m", *arguments)
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def infer(container: Container) -> subprocess.CompletedProcess[str]:
    return python("tools.infer", url=f"{{ api }}://{container.address('{{ api }}')}")


def eventually(holds: Callable[[], bool], timeout: float = 120) -> None:
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
    found = triton.inspect()
    assert found["Config"]["User"] == "1000:1000"
    assert found["HostConfig"]["ReadonlyRootfs"]
    assert "CapEff:\t0000000000000000" in inside(triton, "cat", "/proc/1/status").stdout
    assert inside(triton, "touch", "/models/new").returncode
    ports = found["NetworkSettings"]["Ports"].values()
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
{% if graph.python_models and not graph.decoupled %}


def test_a_python_process_that_is_killed_ends_requests_with_an_error(triton: Container) -> None:
    """Not with a hang. Then the health check has the server started anew, where Triton does not heal itself."""
    inside(triton, "python3", "-c", KILL, "triton_python_backend_stub")
    answer = infer(triton)
    assert answer.returncode == 0 or "not healthy" in answer.stderr
    assert "Traceback" not in answer.stderr
    eventually(lambda: triton.state()[0] == "running" and infer(triton).returncode == 0)
{% endif %}
{% if graph.python_models %}


def test_shared_memory_that_is_too_small_is_named(
    compose: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHM_SIZE", "512k")
    command = (*compose, "--project-name={{ graph.container.name }}-small")
    try:
        with pytest.raises(ContainerError, match=r"(?i)shared memory"):
            up(command)
    finally:
        output(*command, "down", "--volumes", "--remove-orphans")
{% endif %}


def test_stops_gently(triton: Container) -> None:
    output(DOCKER, "stop", "--time", "40", triton.id)
    assert triton.inspect()["State"]["ExitCode"] == 0
    output(DOCKER, "start", triton.id)
