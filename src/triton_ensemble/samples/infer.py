{% set api = 'grpc' if graph.decoupled else 'http' %}
# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Sends the sample requests and prints the answers; starts a Triton for it where none answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from {{ package }} import Client, InferenceError
from {{ package }}.printing import by_row, cells
from triton_ensemble.project import ENSEMBLE, REPOSITORY
from triton_ensemble.samples.files import Sample, samples
from triton_ensemble.server.local_triton import LocalTriton, ServerError


@contextmanager
def server() -> Iterator[str]:
    """The URL of TRITON_URL, else of the server on {{ api | upper }}_PORT, else of one that runs meanwhile."""
    url = os.environ.get("TRITON_URL")
    local = f"{{ api }}://127.0.0.1:{os.environ.get('{{ api | upper }}_PORT', '{{ '8001' if graph.decoupled else '8000' }}')}"
    if url or answers(local):
        yield url or local
        print("That server has run since before; one that you start anew has your latest changes.")
        return
    print("No Triton answers: starting one ...", flush=True)
    with LocalTriton(REPOSITORY, ENSEMBLE) as triton:
        print(*triton.notes, sep="\n", end="\n" if triton.notes else "")
        yield triton.{{ api }}_url


def answers(url: str) -> bool:
    with Client(url, timeout=2) as client:
        return client.ready()


def show(sample: Sample, client: Client) -> None:
    """Prints the outputs of a sample, a line a row, long rows shortened."""
    print(f"{sample.name}:")
    for answer in client.answers(sample.inputs):
        for name, array in answer.items():
            for row in by_row(array):
                print(f"  {name}: {cells(row)}")


def main() -> None:
{% if graph.bf16 %}
    if not os.environ.get("TRITON_URL"):
        print("The local Triton can't run BF16 tensors; set TRITON_URL to a server that can")
        return
{% endif %}
    try:
        with server() as url, Client(url) as client:
            print(f"{ENSEMBLE} at {url}")
            for sample in samples():
                show(sample, client)
    except (InferenceError, OSError, ServerError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
