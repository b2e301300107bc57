"""Sends the sample requests and prints the answers.

They go to the server at TRITON_URL, else to the one that `make serve` runs on HTTP_PORT (GRPC_PORT
where the pipeline is decoupled), else to a Triton that is started for them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from triton_ensemble.client import Client, package, protocols
from triton_ensemble.project import Project
from triton_ensemble.samples.files import Sample, samples
from triton_ensemble.server.local_triton import LocalTriton, ServerError

PORTS = {"http": "8000", "grpc": "8001"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take none: the current folder and the environment decide."""


def run(arguments: argparse.Namespace) -> int:
    """Print the answers to all samples; 1 and one line where a request fails."""
    project = Project.load(Path.cwd())
    if project.bf16 and not os.environ.get("TRITON_URL"):
        print("The local Triton can't run BF16 tensors; set TRITON_URL to a server that can")
        return 0
    own = package(project)
    try:
        with server(project) as url, own.Client(url) as client:
            print(f"{project.ensemble} at {url}")
            for sample in samples(project):
                _print_answers(project, sample, client)
    except (own.InferenceError, OSError, ServerError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


@contextmanager
def server(project: Project) -> Iterator[str]:
    """Yield the URL of a server that runs, or of a local Triton that runs meanwhile; ServerError if it can't."""
    protocol = protocols(project)[0]
    url = os.environ.get("TRITON_URL")
    port = os.environ.get(f"{protocol.upper()}_PORT", PORTS[protocol])
    local = f"{protocol}://127.0.0.1:{port}"
    if url or _is_ready(project, local):
        yield url or local
        print("That server has run since before; one that you start anew has your latest changes.")
        return
    print("No Triton answers: starting one ...", flush=True)
    with LocalTriton(project.repository, project.ensemble) as triton:
        print(*triton.notes, sep="\n", end="\n" if triton.notes else "")
        yield {"http": triton.http_url, "grpc": triton.grpc_url}[protocol]


def _is_ready(project: Project, url: str) -> bool:
    with package(project).Client(url, timeout=2) as client:
        return bool(client.ready())


def _print_answers(project: Project, sample: Sample, client: Client) -> None:
    """Print the outputs of a sample, a line for each row, long rows shortened."""
    printing = package(project, "runtime.printing")
    print(f"{sample.name}:")
    for answer in client.answers(sample.inputs):
        for name, array in answer.items():
            for row in printing.by_row(array):
                print(f"  {name}: {printing.cells(row)}")
