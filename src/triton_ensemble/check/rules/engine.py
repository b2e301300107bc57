"""The check: all rules, asked of one repository."""

from __future__ import annotations

from pathlib import Path

from triton_ensemble.check.finding import Finding
from triton_ensemble.check.repository import Repository
from triton_ensemble.check.rules import RULES
from triton_ensemble.check.team import add_team_findings


def check(folder: Path, release: str = "", *, is_own: bool = False) -> list[Finding]:
    """Return all findings in a model repository and its stages, by file and line.

    `release` (YY.MM) is the Triton to serve it: without one the project's, or the newest. Raise
    OSError if a folder can't be read. If it `is_own`, rules of its team may run.
    """
    base = Repository.read(folder, release)
    stages = [Repository.read(folder, release, stage) for stage in base.answers.get("stages") or ()]
    for repository in (base, *stages):
        repository.is_own = is_own
    found = findings_in(base)
    return sorted({*found, *(each for stage in stages for each in findings_in(stage))})


def findings_in(repository: Repository) -> list[Finding]:
    """Return what all rules find in a repository that was read, by file and line."""
    for rule in RULES.values():
        repository.findings += rule.findings(repository)
    return sorted(set(add_team_findings(repository, repository.findings, [*RULES])))
