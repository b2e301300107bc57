"""Serve a project's versions on the local Triton, to see whether it loads them and the live tests pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from triton_ensemble.deploy.versions import VersionError
from triton_ensemble.facts.client import package
from triton_ensemble.facts.project import Project
from triton_ensemble.serve.local.local_triton import LocalTriton
from triton_ensemble.serve.local.process import ServerError
from triton_ensemble.testing import golden, smoke

GOLDEN = str(golden.FILE)


@contextmanager
def serve_candidate(project: Project) -> Iterator[LocalTriton]:
    """Serve a candidate on free ports, or raise VersionError with Triton's reason if it does not load."""
    try:
        with LocalTriton(project.repository, project.ensemble) as triton:
            print(*triton.notes, sep="\n", end="\n" * bool(triton.notes), flush=True)
            yield triton
    except ServerError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        reasons = [line for line in lines[1:] if not line.startswith("log: ")] or lines[:1]
        raise VersionError(f"Triton does not load it: {'; '.join(reasons)}") from error


def failures(project: Project, triton: LocalTriton) -> list[str]:
    """Return the live tests that fail."""
    urls = {
        "TRITON_URL": _url(project, triton),
        "TRITON_GRPC_URL": triton.grpc_url,
        "TRITON_METRICS_URL": triton.metrics_url,
    }
    return smoke.failures(project.root, urls)


def _url(project: Project, triton: LocalTriton) -> str:
    return triton.grpc_url if project.decoupled else triton.http_url


def record_golden(project: Project, triton: LocalTriton) -> str:
    """Make the answers of a server the golden ones, and return a line on the new ones."""
    try:
        return golden.record(project, _url(project, triton))
    except (package(project).InferenceError, OSError, ValueError) as error:
        raise VersionError(f"its answers can't be recorded: {error}") from error
