"""The project whose tests run, and the tests that it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from triton_ensemble.facts.project import Project

PROJECT: Project  # set by the plugin, before tests are collected

Test = TypeVar("Test", bound=Callable[..., Any])


def only_where(applies: bool) -> Callable[[Test], Test | None]:
    """Decorate a test that only some projects have: elsewhere it is None, which pytest does not collect."""
    return lambda test: test if applies else None
