"""The requirements of a team that forked the template: its own rules, and warnings that become errors.

A project has them in vendor/team/. A rule is the function `find` of a module in vendor/team/rules/, and has the
module's name. It gets the repository and yields `config.Problem`s.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import yaml

from triton_ensemble.check.finding import Finding
from triton_ensemble.check.repository import Repository
from triton_ensemble.check.rule import make_finding
from triton_ensemble.environment.needs import STATE, read_state
from triton_ensemble.facts.answers import (
    FILE,
    NO_YAML,
    load_yaml,
    yaml_problem,
)
from triton_ensemble.facts.config import Problem, did_you_mean
from triton_ensemble.facts.terminal import shorten

FOLDER = Path("vendor", "team")
WHEEL = "vendor/triton_ensemble-*.whl"
CORRECT = "correct it in the team's template"


def add_team_findings(
    repository: Repository, findings: list[Finding], ids: list[str]
) -> list[Finding]:
    """Return findings and the findings of the team's rules.

    `ids` are the rules that the team may know.
    """
    if not (FOLDER.is_dir() and repository.is_own and _is_set_up(repository)):
        return findings
    modules = sorted(FOLDER.glob("rules/*.py"))
    found = [*findings, *(each for module in modules for each in _findings(module, repository))]
    errors, unknown = _errors([*ids, *map(_rule, modules)])
    return [
        replace(each, severity="error") if each.rule in errors else each for each in found + unknown
    ]


def is_set_up(root: Path) -> bool:
    """Return whether `make setup` of the project in `root` has installed the toolkit that runs.

    A stranger can write all files of a project, so only the environment says that its owner set it up. If a stranger
    wrote that too, the program that runs is already the stranger's.
    """
    environment = Path(sys.prefix)
    stamp = environment / STATE
    if not (stamp.is_file() and (root / FILE).is_file() and any(root.glob(WHEEL))):
        return False
    state = read_state(stamp)
    roots = (environment.parent.resolve(), Path(state.get("root", "/")))
    return "toolkit" in state and root in roots


def _is_set_up(repository: Repository) -> bool:
    root = Path.cwd()
    return repository.owned.resolve() == root and is_set_up(root)


def _rule(module: Path) -> str:
    return module.stem.replace("_", "-")


def _findings(module: Path, repository: Repository) -> Iterator[Finding]:
    """Iterate over what one rule finds. A rule that fails is a finding too."""
    try:
        find = runpy.run_path(str(module)).get("find")
        if not find:
            yield Finding(module.resolve(), 1, "team-rule", "has no function `find`", CORRECT)
            return
        problems: list[Problem] = [*find(repository)]
        yield from (make_finding(each, _rule(module), "warning") for each in problems)
    except Exception as error:  # whatever it is, it is one line
        what = f"raises {' '.join(traceback.format_exception_only(error)[-1].split())}"
        yield Finding(module.resolve(), _line(error, module), "team-rule", shorten(what), CORRECT)


def _line(error: Exception, module: Path) -> int:
    """Return the line of a module in which an error arose."""
    if isinstance(error, SyntaxError):
        return error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    return next((each.lineno or 1 for each in reversed(frames) if each.filename == str(module)), 1)


def _errors(known: list[str]) -> tuple[set[str], list[Finding]]:
    """Return the rules whose findings are errors for the team, and what is wrong with team.yml."""
    path = FOLDER / "team.yml"
    content = path.read_bytes() if path.is_file() else b""
    lines = content.decode(errors="replace").splitlines()
    line = next((i for i, each in enumerate(lines, 1) if each.startswith("errors")), 1)
    find = partial(Finding, path.resolve(), line, "team-rule")
    try:
        given = load_yaml(content) or {}
    except NO_YAML as error:
        line = yaml_problem(error)[0] if isinstance(error, yaml.YAMLError) else 1
        return set(), [replace(find("is not YAML", CORRECT), line=line)]
    listed = (given.get("errors") or []) if isinstance(given, dict) else None
    if not (isinstance(listed, list) and all(isinstance(each, str) for each in listed)):
        return set(), [find("errors is not a list of rules", CORRECT)]
    return {*listed}, [
        find(f"errors has {each}, which is not a rule", did_you_mean(each, known, CORRECT))
        for each in listed
        if each not in known
    ]
