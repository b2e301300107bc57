"""Send the sample requests and print the responses.

The requests go to the server at TRITON_URL, otherwise to the server of `make serve` on HTTP_PORT (GRPC_PORT
if the pipeline is decoupled). If neither runs, the command starts a Triton for them.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from triton_ensemble.facts.client import Client, package, protocols
from triton_ensemble.facts.project import Project
from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.ports import (
    holder,
    is_taken,
    server_at,
    usual,
)
from triton_ensemble.serve.local.process import ServerError
from triton_ensemble.testing.files import Sample, samples, way_out
from triton_ensemble.testing.images import suffix
from triton_ensemble.testing.outdated import find_outdated
from triton_ensemble.testing.printing import cells, split_rows

ANSWERS = Path("build/answers")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no arguments: the current folder and the environment decide."""


def run(arguments: argparse.Namespace) -> int:
    """Print the answers to all samples, and return 1 after one line if a request fails."""
    project = Project.load(Path.cwd())
    if project.bf16 and not os.environ.get("TRITON_URL"):
        print("The local Triton can't run BF16 tensors; set TRITON_URL to a server that can")
        return 0
    own = package(project)
    try:
        with server(project) as url, own.Client(url) as client:
            for sample in samples(project):
                _print_answers(project, sample, client)
    except own.InvalidInput as error:
        print(f"sample {sample.name}: {error}{way_out(project, sample)}", file=sys.stderr)
        return 1
    except (own.InferenceError, OSError, ServerError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


@contextmanager
def server(project: Project) -> Iterator[str]:
    """Yield the URL of a server that runs, or of a local Triton that runs meanwhile.

    Raise ServerError if the local Triton can't run.
    """
    protocol = protocols(project)[0]
    url = os.environ.get("TRITON_URL")
    port = usual(protocol)
    local = f"{protocol}://127.0.0.1:{port}"
    if url:
        print(f"{project.ensemble} at {url}, which TRITON_URL names", flush=True)
        _warn_of_older(project, url)
        yield url
        return
    if port and _is_ready(project, local):
        latest = "restart it to serve your latest changes"
        print(f"{project.ensemble} at {local}, {server_at(port)}; {latest}", flush=True)
        _warn_of_older(project, local)
        yield local
        return
    held = f"; port {port} is held by {holder(port)}" if port and is_taken(port) else ""
    print(f"No Triton answers, so one is started ...{held}", flush=True)
    with LocalTriton(project.repository, project.ensemble, gentle=False) as triton:
        print(*triton.notes, sep="\n", end="\n" if triton.notes else "")
        own = {"http": triton.http_url, "grpc": triton.grpc_url}[protocol]
        print(f"{project.ensemble} at {own}, started for this command", flush=True)
        yield own


def _warn_of_older(project: Project, url: str) -> None:
    if outdated := find_outdated(project, url):
        names = ", ".join(outdated)
        print(
            f"{url}: serves another {names} than model_repository/ has; restart it",
            file=sys.stderr,
        )


def _is_ready(project: Project, url: str) -> bool:
    with package(project).Client(url, timeout=2) as client:
        return bool(client.ready())


def _print_answers(project: Project, sample: Sample, client: Client) -> None:
    """Print the outputs of a sample, a line for each row, with long rows shortened.

    Bytes that are not text are written to files.
    """
    print(f"{sample.name}:")
    for answer in client.answers(sample.inputs):
        for name, array in answer.items():
            for number, row in enumerate(split_rows(array, project.batched)):
                written = _write_row(f"{sample.name}-{name}-{number}", row)
                print(f"  {name}: {cells(row)}{written}")


def _write_row(name: str, row: NDArray[Any]) -> str:
    """Write the bytes of a row to a file for viewing, if they are not text, and return in words where."""
    content = row.item() if row.dtype == object and row.size == 1 else b""
    try:
        content.decode()
        return ""
    except UnicodeDecodeError:
        path = ANSWERS / re.sub(r"[^\w.-]", "_", name + suffix(content))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return f": {path}"
