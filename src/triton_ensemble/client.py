"""The client of a generated project: source in its src/, imported while a command runs."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from numpy.typing import NDArray

from triton_ensemble.project import Project

Arrays: TypeAlias = dict[str, NDArray[Any]]


class Client(Protocol):
    """What the toolkit calls of a project's client; the project's own one has the types of its pipeline."""

    def ready(self) -> bool:
        """Return whether the server is there and has loaded the ensemble."""

    def answers(self, inputs: Mapping[str, Any]) -> Iterator[Arrays]:
        """Return all answers to a call, of whatever pipeline."""

    def infer(self, inputs: Mapping[str, Any], *, outputs: Sequence[str] | None = None) -> Arrays:
        """Return the answer to a call, which may be several requests."""

    def send(self, inputs: Arrays) -> Arrays:
        """Return the answer to one request as it is: not checked, not cut, not tried again."""

    def send_stream(self, inputs: Arrays) -> Iterator[Arrays]:
        """Return the answers of a decoupled pipeline to one request as it is."""


def package(project: Project, module: str = "") -> Any:
    """Import the project's client, or a module of it, from src/ where it is not installed."""
    if importlib.util.find_spec(project.package) is None:
        sys.path.insert(0, str(project.root / "src"))
    return importlib.import_module(".".join(filter(None, (project.package, module))))


def protocols(project: Project) -> tuple[str, ...]:
    """Return the protocols that the project's client speaks, its default first: http and grpc."""
    return ("grpc",) if project.decoupled else ("http", "grpc")
