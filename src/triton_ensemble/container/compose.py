"""Starts containers by compose and waits for Triton: `python -m triton_ensemble.container.compose docker compose --file ...`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from triton_ensemble.server import log as server_log
from triton_ensemble.server.ports import holder

DOCKER = os.environ.get("DOCKER", "docker")
MONITORED = "monitoring" in os.environ.get("COMPOSE_PROFILES", "")
TIMEOUT_S = 600  # large models load for minutes
PATIENCE_S = 20  # then what the health check prints is shown
PORTS = {"http": "8000", "grpc": "8001", "metrics": "8002"}
# Ports on this machine, by the variables that name others.
DEFAULTS = {"HTTP": 8000, "GRPC": 8001, "METRICS": 8002, "PROMETHEUS": 9090, "GRAFANA": 3000}
TAKEN = re.compile(r"^.*127\.0\.0\.1:(\d+).*(already allocated|already in use)", re.M)
# Errors of Docker and compose, as patterns, and what to write instead.
REMEDIES = {
    "could not select device driver": "without a GPU: make up GPUS=0",
    "dial tcp": "an image that can't be fetched; without Prometheus and Grafana: make up COMPOSE_PROFILES=",
}


class ContainerError(RuntimeError):
    """Triton does not serve: why, a line for each cause, and how to see its log."""


class EndedError(ContainerError):
    """The container has ended; Docker may start it again and again."""


def output(*command: str) -> str:
    """Return what a command prints; ContainerError with its errors if it fails."""
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
    remedies = [remedy for pattern, remedy in REMEDIES.items() if re.search(pattern, text)]
    remedies += [_taken(int(port)) for port, _ in dict.fromkeys(TAKEN.findall(text))]
    return "\n  ".join([text, *remedies])


def _taken(port: int) -> str:
    """Return who holds a port, and what takes a free one."""
    told = {api: os.environ.get(f"{api}_PORT", str(usual)) for api, usual in DEFAULTS.items()}
    api = next((api for api, chosen in told.items() if chosen == str(port)), "HTTP")
    return f"port {port} is held by {_holder(port)}; a free one: {api}_PORT=0 make up"


def _holder(port: int) -> str:
    """Return the container that publishes a port, and its folder; else the process that listens there."""
    form = '{{.Names}}{{with .Label "com.docker.compose.project.working_dir"}} of {{.}}{{end}}'
    command = [DOCKER, "ps", "--filter", f"publish={port}", "--format", form]
    containers = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    return f"container {containers[0]}" if containers else holder(port)


class Container:
    """Triton's container, by its id."""

    def __init__(self, id: str) -> None:
        self.id = id

    def inspect(self) -> dict[str, Any]:
        """Return what `docker inspect` knows of it."""
        return dict(json.loads(output(DOCKER, "inspect", self.id))[0])

    def state(self) -> tuple[str, str]:
        """Return Docker's words for it: running, restarting, exited ...; and starting, healthy, unhealthy."""
        state = self.inspect()["State"]
        return state["Status"], state.get("Health", {}).get("Status", "")

    def log(self) -> str:
        """Return all that it printed."""
        command = [DOCKER, "logs", self.id]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return run.stdout

    def address(self, api: str) -> str:
        """Return host and port of http, grpc or metrics; a restart may change the port."""
        return output(DOCKER, "port", self.id, PORTS[api]).split()[0]

    def wait(self, *, timeout: float = TIMEOUT_S, starting: bool = False) -> None:
        """Wait until it is healthy.

        ContainerError if it is not within `timeout` seconds; EndedError if it ends and, where it is
        `starting` again, is not restarted.
        """
        start, shown = time.monotonic(), ""
        ended = ("exited", "dead") if starting else ("exited", "dead", "restarting")
        while (now := self.state())[1] != "healthy":
            if now[0] in ended:
                raise EndedError(self._why(now))
            if time.monotonic() > start + timeout:
                raise ContainerError(self._why(now))
            if time.monotonic() > start + PATIENCE_S and (check := self.health_check()) != shown:
                shown = check
                print(f"Waiting for Triton: {shown}", file=sys.stderr, flush=True)
            time.sleep(0.5)

    def health_check(self) -> str:
        """Return what the last health check printed."""
        checks = self.inspect()["State"].get("Health", {}).get("Log") or [{}]
        return str(checks[-1].get("Output", "")).strip()

    def _why(self, state: tuple[str, str]) -> str:
        log = self.log()
        lines = [
            f"Triton can't serve: its container is {' and '.join(state)}",
            self.health_check(),
            *(server_log.reasons(log) or log.strip().splitlines()[-5:]),
            f"log: {DOCKER} logs {self.id[:12]}",
        ]
        return "\n  ".join(filter(None, lines))


def find(compose: Sequence[str]) -> Container:
    """Return Triton's container in a compose project that has been started."""
    return Container(output(*compose, "ps", "--quiet", "triton").strip())


def up(compose: Sequence[str]) -> Container:
    """Start the compose project; ContainerError unless Triton serves.

    A server that ends is stopped, for Docker would start it again and again.
    """
    output(*compose, "up", "--detach")
    container = find(compose)
    try:
        container.wait()
    except EndedError:
        output(*compose, "stop", "triton")
        raise
    return container


def main(compose: Sequence[str]) -> int:
    """Start the compose project of a command, print the addresses; return the exit status."""
    try:
        triton = up(compose)
        print(f"http://{triton.address('http')}", f"grpc://{triton.address('grpc')}", sep="\n")
        print(f"http://{triton.address('metrics')}/metrics")
        for service, port in (("prometheus", "9090"), ("grafana", "3000")) if MONITORED else ():
            print(f"http://{output(*compose, 'port', service, port).strip()} {service}")
    except ContainerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
