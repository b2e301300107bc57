"""Serve the project with Ray Serve, with the settings of deploy/ray/serve.yaml, until Ctrl-C.

The command starts its own Ray on this machine. If RAY_ADDRESS names a cluster, it uses that one, whose nodes
need the project's folder and environment.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from triton_ensemble.facts.project import Project, ProjectError
from triton_ensemble.serve.local.ports import free_ports
from triton_ensemble.serve.local.process import ServerError

# Ray's own default.
TEMPORARY = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
LOGS = Path(TEMPORARY, "ray/session_latest/logs/serve")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the port of the proxy, the number of replicas, and the test."""
    parser.add_argument("--port", type=int, default=8090, help="default: 8090; 0 takes a free port")
    parser.add_argument(
        "--replicas", type=int, default=0, help="default: what deploy/ray/serve.yaml says"
    )
    parser.add_argument(
        "--test", action="store_true", help="send the samples through Ray Serve, and stop"
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C (0), or say in a line what is in the way (1)."""
    project = Project.load(Path.cwd())
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anybody
    os.environ.setdefault(
        "GRPC_ENABLE_FORK_SUPPORT", "0"
    )  # with it, gRPC aborts replicas that fork
    # A proxy that starts on a busy machine is not ready in the 5 s after which Ray Serve kills it.
    os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "30")
    try:
        from triton_ensemble.deploy.ray import settings, smoke
        from triton_ensemble.deploy.ray.served import serve_application
    except ImportError as error:
        raise ProjectError(f"Ray Serve needs {error.name}; run: make ray") from None
    chosen = settings.read(project)
    try:
        [port] = free_ports({"ray": arguments.port}).values()
        with serve_application(chosen, port, arguments.replicas) as url:
            if arguments.test:
                return smoke.test(project, url)
            print(f"{project.ensemble} at {url}; Ctrl-C stops it", flush=True)
            print(f"logs: {LOGS}", flush=True)
            while True:
                time.sleep(3600)
    except KeyboardInterrupt:
        return 0
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
