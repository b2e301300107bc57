"""Starts containers by compose and waits for them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from triton_ensemble.facts.project import Project, ProjectError
from triton_ensemble.facts.variables import read_docker, read_port
from triton_ensemble.serve.container.settings import Settings
from triton_ensemble.serve.local import log as server_log
from triton_ensemble.serve.local.ports import describe_taken

TIMEOUT_S = 600  # large models load for minutes
PATIENCE_S = 20  # then what the health check prints is shown
PORTS = {"http": "8000", "grpc": "8001", "metrics": "8002"}
# Those of the services beside Triton. On this machine all are the same, unless variables name others.
GATEWAY_PORTS = {"gateway": "8080"}
MONITORING_PORTS = {"prometheus": "9090", "grafana": "3000"}
TAKEN = re.compile(r"127\.0\.0\.1:\d+.*(already allocated|already in use)")
# Errors of Docker, compose and containers, as patterns, and what to write instead.
REMEDIES = {
    "could not select device driver|nvidia-container|name: nvidia|GPU vendor": "without a GPU: add GPUS=0",
    "dial tcp": "an image that can't be fetched; without Prometheus and Grafana: make up COMPOSE_PROFILES=",
    "No space left on device": "more room in /tmp: make up TMP_SIZE=8g",
    "out of memory": "more memory: make up MEMORY=16g",
    "Resource temporarily unavailable": "more processes and threads: make up PIDS=16384",
}
PROJECT, SERVICE = "com.docker.compose.project", "com.docker.compose.service"
SHOWN = 300  # characters of a reason


class ContainerError(ProjectError):
    """Raised if a service does not run: a line for each failed service, with the reason."""


class EndedError(ContainerError):
    """The container has ended. Docker may start it again and again."""


def output(*command: str) -> str:
    """Return what a command prints, or raise ContainerError with its errors if it fails."""
    try:
        run = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise ContainerError(f"there is no {command[0]}; install Docker with compose") from None
    if run.returncode:
        raise ContainerError(f"{' '.join(command)}: {_failure(run)}")
    return run.stdout


def _failure(run: subprocess.CompletedProcess[str]) -> str:
    lines = (run.stdout + run.stderr).strip().splitlines() or [f"exit status {run.returncode}"]
    errors = [line.strip() for line in lines if re.search("error|cannot|failed", line, re.I)]
    text = "\n  ".join(dict.fromkeys(errors or lines[-1:]))
    held = _describe_taken() if TAKEN.search(text) else ""
    return "\n  ".join(filter(None, [text, *remedies(text), held]))


def remedies(text: str) -> list[str]:
    """Return what to write instead, by what an error says."""
    return [remedy for pattern, remedy in REMEDIES.items() if re.search(pattern, text)]


def _describe_taken() -> str:
    """Return which ports that compose publishes are in use, and by what, other than containers of this folder."""
    ports = read_ports(Settings.read(Project.load(Path())))
    return describe_taken(ports, ours=str(Path("deploy").resolve()))


def read_ports(settings: Settings) -> dict[str, int]:
    """Return the ports that compose publishes, or raise ProjectError if a variable is not a port."""
    tritons = settings.publishes_triton or not settings.has_gateway
    usual = (PORTS if tritons else {}) | list_beside(settings)
    return {api: read_port(f"{api.upper()}_PORT", int(usual[api])) for api in usual}


def list_beside(settings: Settings) -> dict[str, str]:
    """Return the ports of the services that run beside Triton, in their containers."""
    is_monitored = "monitoring" in settings.profiles and Path("deploy/monitoring").is_dir()
    gateway = GATEWAY_PORTS if settings.has_gateway else {}
    return gateway | (MONITORING_PORTS if is_monitored else {})


class Container:
    """The container of a service, by its id."""

    def __init__(self, id: str, service: str = "triton") -> None:
        self.id, self.service = id, service

    def inspect(self) -> dict[str, Any]:
        """Return what `docker inspect` knows of the container."""
        return dict(json.loads(output(*read_docker(), "inspect", self.id))[0])

    def state(self) -> tuple[str, str]:
        """Return Docker's words for its status and its health.

        The status is running, restarting, exited ..., and the health is starting, healthy or unhealthy.
        """
        state = self.inspect()["State"]
        return state["Status"], state.get("Health", {}).get("Status", "")

    def log(self) -> str:
        """Return all that the container printed."""
        command = [*read_docker(), "logs", self.id]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return run.stdout

    def address(self, api: str) -> str:
        """Return host and port of http, grpc or metrics. A restart may change the port."""
        return output(*read_docker(), "port", self.id, PORTS[api]).split()[0]

    def wait(self, *, timeout: float = TIMEOUT_S, starting: bool = False) -> None:
        """Wait until a service is healthy, or runs if it does not have a health check.

        Raise ContainerError if this takes longer than `timeout` seconds. Raise EndedError if the service ends or,
        while it is `starting` again, only if it is not restarted.
        """
        start, shown = time.monotonic(), ""
        ended = ("exited", "dead") if starting else ("exited", "dead", "restarting")
        while (now := self.state())[1] != "healthy" and now != ("running", ""):
            if now[0] in ended:
                raise EndedError(self._why(now))
            if time.monotonic() > start + timeout or self._has_given_up(now[1]):
                raise ContainerError(self._why(now))
            if time.monotonic() > start + PATIENCE_S and (check := self.health_check()) != shown:
                shown = check
                print(f"Waiting for {self.service}: {shown}", file=sys.stderr, flush=True)
            time.sleep(0.5)

    def _has_given_up(self, health: str) -> bool:
        """Return whether it will not get healthy. Triton may, because its health check has started it anew."""
        return health == "unhealthy" and self.service != "triton"

    def health_check(self) -> str:
        """Return what the last health check printed."""
        checks = self.inspect()["State"].get("Health", {}).get("Log") or [{}]
        return str(checks[-1].get("Output", "")).strip()

    def _why(self, state: tuple[str, str]) -> str:
        """Return the service, its state, the reason and what to write instead, in one line."""
        reason = self._reason(running=state[0] == "running")
        parts = [reason, *remedies(reason), f"log: {shlex.join(read_docker())} logs {self.id[:12]}"]
        return f"{self.service} is {' and '.join(filter(None, state))}: {'; '.join(parts)}"

    def _reason(self, *, running: bool) -> str:
        log = self.log()
        lines = [line.strip() for line in log.splitlines() if line.strip()] or [
            "it printed nothing"
        ]
        errors = [line for line in lines if re.search("error|fatal|panic|cannot|can't", line, re.I)]
        reasons = server_log.reasons(log) or [self.health_check() if running else ""]
        if self.inspect()["State"]["OOMKilled"]:
            reasons = ["out of memory"]
        return ("; ".join(filter(None, reasons)) or [*lines, *errors][-1])[:SHOWN]


def find(compose: Sequence[str]) -> Container:
    """Return Triton's container in a compose project that has been started."""
    return Container(output(*compose, "ps", "--quiet", "triton").strip())


def others(triton: Container) -> list[Container]:
    """Return the containers that run, or are started again, beside Triton's in its compose project."""
    project = triton.inspect()["Config"]["Labels"][PROJECT]
    of_project, form = f"label={PROJECT}={project}", f'{{{{.ID}}}} {{{{.Label "{SERVICE}"}}}}'
    listed = output(*read_docker(), "ps", "--filter", of_project, "--format", form).splitlines()
    containers = [Container(*line.split()) for line in listed]
    return [container for container in containers if container.service != triton.service]


def start_services(compose: Sequence[str], *services: str) -> Container:
    """Start the compose project, or some of its services.

    Raise ContainerError unless all of them run. Services that end are stopped, because Docker would restart them
    again and again.
    """
    output(*compose, "up", "--detach", *services)
    triton = find(compose)
    if pids := os.environ.get("PIDS"):
        output(*read_docker(), "update", "--pids-limit", pids, triton.id)
    problems = []
    for container in [triton, *others(triton)]:
        try:
            container.wait()
        except ContainerError as error:
            problems.append(str(error))
            if isinstance(error, EndedError):
                output(*compose, "stop", container.service)
    if problems:
        raise ContainerError("\n".join(problems))
    return triton


def list_addresses(settings: Settings, triton: Container) -> Iterator[str]:
    """Yield the addresses at which this machine reaches the services that have been started."""
    if triton.inspect()["HostConfig"]["PortBindings"]:
        yield from (f"{api}://{triton.address(api)}" for api in ("http", "grpc"))
        yield f"http://{triton.address('metrics')}/metrics"
    for service, port in list_beside(settings).items():
        yield f"http://{output(*settings.compose, 'port', service, port).strip()} {service}"
