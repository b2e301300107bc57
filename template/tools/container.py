# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Starts containers by compose and waits for Triton: `python -m tools.container docker compose --file ...`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from tools import server_log

DOCKER = os.environ.get("DOCKER", "docker")
MONITORED = "monitoring" in os.environ.get("COMPOSE_PROFILES", "")
TIMEOUT_S = 600  # large models load for minutes
PORTS = {"http": "8000", "grpc": "8001", "metrics": "8002"}


class ContainerError(RuntimeError):
    """Triton does not serve: why, a line for each cause, and how to see its log."""


def output(*command: str) -> str:
    """What a command printed; ContainerError with its last line if it failed."""
    try:
        run = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise ContainerError(f"there is no {command[0]}; install Docker with compose") from None
    if run.returncode:
        said = (run.stdout + run.stderr).strip().splitlines() or [f"exit status {run.returncode}"]
        raise ContainerError(f"{' '.join(command)}: {said[-1]}")
    return run.stdout


class Container:
    """Triton's, by its id."""

    def __init__(self, id: str) -> None:
        self.id = id

    def inspect(self) -> dict[str, Any]:
        return dict(json.loads(output(DOCKER, "inspect", self.id))[0])

    def state(self) -> tuple[str, str]:
        """Docker's words for it: running, restarting, exited ...; and starting, healthy, unhealthy."""
        found = self.inspect()["State"]
        return found["Status"], found.get("Health", {}).get("Status", "")

    def log(self) -> str:
        command = [DOCKER, "logs", self.id]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return run.stdout

    def address(self, api: str) -> str:
        """Host and port; a restart may change the port."""
        return output(DOCKER, "port", self.id, PORTS[api]).split()[0]

    def wait(self, *, timeout: float = TIMEOUT_S, starting: bool = False) -> None:
        """Wait until it is healthy; ContainerError if it never is, or ends and is not `starting` anew."""
        deadline = time.monotonic() + timeout
        ended = ("exited", "dead") if starting else ("exited", "dead", "restarting")
        while (now := self.state())[1] != "healthy":
            if now[0] in ended or time.monotonic() > deadline:
                raise self._error(f"Triton can't serve: its container is {' and '.join(now)}")
            time.sleep(0.5)

    def _error(self, what: str) -> ContainerError:
        log = self.log()
        reasons = server_log.reasons(log) or log.strip().splitlines()[-5:]
        return ContainerError("\n  ".join([what, *reasons, f"log: {DOCKER} logs {self.id[:12]}"]))


def find(compose: Sequence[str]) -> Container:
    """That of a compose project, which has been started."""
    return Container(output(*compose, "ps", "--quiet", "triton").strip())


def up(compose: Sequence[str]) -> Container:
    """Starts it; ContainerError unless it serves."""
    output(*compose, "up", "--detach")
    container = find(compose)
    container.wait()
    return container


def main() -> int:
    compose = sys.argv[1:]
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
    sys.exit(main())
