"""Serves the project's ensemble with the local Triton, in the foreground, until Ctrl-C.

It prints the addresses when the ensemble is ready. A port of 0 is a free one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from triton_ensemble.project import Project
from triton_ensemble.server.local_triton import LocalTriton, ServerError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Ports, and another repository than the project's."""
    for api, port in (("http", 8000), ("grpc", 8001), ("metrics", 8002)):
        parser.add_argument(f"--{api}-port", type=int, default=port, help=f"{port} by default")
    parser.add_argument(
        "repository", type=Path, nargs="?", help="a repository that is no project's"
    )
    parser.add_argument("model", nargs="?", help="and the model of it to wait for")


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C (0) or until something fails (1)."""
    repository, model = arguments.repository, arguments.model
    if not (repository and model):
        project = Project.load(Path.cwd())
        repository, model = project.repository, project.ensemble
    ports = {name: getattr(arguments, name) for name in ("http_port", "grpc_port", "metrics_port")}
    try:
        with LocalTriton(repository, model, **ports) as triton:
            ready = f"{triton.model} is ready; Ctrl-C stops it; log: {triton.log}"
            urls = triton.http_url, triton.grpc_url, triton.metrics_url
            print(*triton.notes, ready, *urls, sep="\n", flush=True)
            triton.wait()
    except KeyboardInterrupt:
        return 0
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
