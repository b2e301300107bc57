"""A rule of the check: a function that finds problems in what it is about, and what people want to know of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from triton_ensemble.check.examples import Example
from triton_ensemble.check.finding import Finding
from triton_ensemble.check.repository import Repository
from triton_ensemble.facts.config import Problem
from triton_ensemble.facts.terminal import shorten

Subject = TypeVar("Subject")
Find = Callable[[Subject], Iterator[Problem]]

REGISTERED: list[Rule] = []


@dataclass(frozen=True)
class Rule:
    """A rule of the check.

    `find` yields the problems of one subject, and `of` the subjects in a repository. `triton` is
    what Triton says or does there, in Markdown. In the example `fails` the rule finds something and
    no other rule does. In `passes` none does.
    """

    id: str
    severity: str
    of: Callable[[Repository], Iterable[Any]]
    find: Find[Any]
    triton: str
    fails: Example
    passes: Example

    @property
    def summary(self) -> str:
        """The function's docstring on one line: what holds if the rule finds nothing."""
        return " ".join(inspect.cleandoc(self.find.__doc__ or "").split())

    def findings(self, repository: Repository) -> Iterator[Finding]:
        """Iterate over what the rule finds in a repository."""
        try:
            for subject in self.of(repository):
                for each in self.find(subject):
                    yield make_finding(each, self.id, self.severity)
        except OSError as error:
            what, instead = f"can't be read: {error.strerror}", "make it a file that can be read"
            path = Path(error.filename or repository.folder)
            yield Finding(path, 1, self.id, what, instead, self.severity)


def make_finding(problem: Problem, rule: str, severity: str) -> Finding:
    """Return a problem as a finding of a rule."""
    words = shorten(problem.what), shorten(problem.instead)
    return Finding(problem.file, problem.line, rule, *words, severity, problem.missing)


def error(
    id: str,
    *,
    of: Callable[[Repository], Iterable[Subject]],
    triton: str,
    fails: Example,
    passes: Example,
) -> Callable[[Find[Subject]], Find[Subject]]:
    """Make a function a rule for what Triton refuses, or loads and never answers."""
    return lambda find: _register(Rule(id, "error", of, find, triton, fails, passes))


def warning(
    id: str,
    *,
    of: Callable[[Repository], Iterable[Subject]],
    triton: str,
    fails: Example,
    passes: Example,
) -> Callable[[Find[Subject]], Find[Subject]]:
    """Make a function a rule for what Triton serves otherwise than it is written, or not for every request."""
    return lambda find: _register(Rule(id, "warning", of, find, triton, fails, passes))


def _register(rule: Rule) -> Find[Any]:
    REGISTERED.append(rule)
    return rule.find
