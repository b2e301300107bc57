"""Starts containers by compose and waits for Triton: `python -m tools.container docker compose --file ...`."""

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

DOCKER = os.environ.get("DOCKER", "docker")
MONITORED = "monitoring" in os.environ.get("COMPOSE_PROFILES", "")
TIMEOUT_S = 600  # large models load for minutes
PATIENCE_S = 20  # then what the health check says is shown
PORTS = {"http": "8000", "grpc": "8001", "metrics": "8002"}
# Words of Docker and compose, as patterns, and what to write instead.
REMEDIES = {
    "port is already allocated|address already in use": "another port: HTTP_PORT=9000 make up",
    "could not select device driver": "without a GPU: make up GPUS=0",
    "dial tcp": "an image that can't be fetched; without Prometheus and Grafana: make up COMPOSE_PROFILES=",
}


class ContainerError(RuntimeError):
    """Triton does not serve: why, a line for each cause, and how to see its log."""


def output(*command: str) -> str:
    """What a command printed; ContainerError with its errors if it failed."""
    try:
        run = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise ContainerError(f"there is no {command[0]}; install Docker with compose") from None
    if run.returncode:
        raise ContainerError(f"{' '.join(command)}: {_failure(run)}")
    return run.stdout


def _failure(run: subprocess.CompletedProcess[str]) -> str:
    said = (run.stdout + run.stderr).strip().splitlines() or [f"exit status {run.returncode}"]
    errors = [line.strip() for line in said if re.search("error|cannot|failed", line, re.I)]
    found = "\n  ".join(dict.fromkeys(errors or said[-1:]))
    remedies = [text for words, text in REMEDIES.items() if re.search(words, found)]
    return "\n  ".join([found, *remedies])


class EndedError(ContainerError):
    """It has ended, and is perhaps started again and again."""


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
        start, said = time.monotonic(), ""
        ended = ("exited", "dead") if starting else ("exited", "dead", "restarting")
        while (now := self.state())[1] != "healthy":
            if now[0] in ended:
                raise EndedError(self._why(now))
            if time.monotonic() > start + timeout:
                raise ContainerError(self._why(now))
            if time.monotonic() > start + PATIENCE_S and (check := self.health_check()) != said:
                said = check
                print(f"Waiting for Triton: {said}", file=sys.stderr, flush=True)
            time.sleep(0.5)

    def health_check(self) -> str:
        """What the last one said."""
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
    """That of a compose project, which has been started."""
    return Container(output(*compose, "ps", "--quiet", "triton").strip())


def up(compose: Sequence[str]) -> Container:
    """Starts it; ContainerError unless it serves. What ends is stopped: Docker would start it again and again."""
    output(*compose, "up", "--detach")
    container = find(compose)
    try:
        container.wait()
    except EndedError:
        output(*compose, "stop", "triton")
        raise
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
