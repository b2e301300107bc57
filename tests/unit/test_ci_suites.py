"""Check that CI runs each suite of the Makefile, and that the unit tests can be imported where CI runs them."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
SUITES = re.findall(r"^(test[a-z-]*|lint|docs):", MAKEFILE, re.MULTILINE)
WORKFLOW = (ROOT / ".github/workflows/test.yml").read_text()
JOBS: dict[str, Any] = yaml.safe_load(WORKFLOW)["jobs"]

UNIT_LOCK = (ROOT / "locks/requirements-unit.lock").read_text()
LOCKED = set(re.findall(r"^([\w.-]+)==", UNIT_LOCK, re.MULTILINE))
UNIT_FILES = [ROOT / "tests/conftest.py", *sorted(ROOT.glob("tests/unit/**/*.py"))]
FOLDERS = [ROOT / name for name in ("", "src", "tests/helpers", "tests/unit")]
# Packages that are not named as what they have.
PACKAGES = {
    "PIL": "pillow",
    "_pytest": "pytest",
    "google": "protobuf",
    "grpc": "grpcio",
    "opentelemetry": "opentelemetry-api",
    "ruamel": "ruamel-yaml",
    "yaml": "pyyaml",
}
# Modules of the standard library that Windows does not have.
POSIX = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}
# Modules that need gevent, which has no wheel for Python 3.10 on macOS.
UNLOCKED = ("tritonclient.http",)


def list_commands(job: dict[str, Any]) -> list[str]:
    """Return the commands of a job, once for each suite of its matrix."""
    suites = job.get("strategy", {}).get("matrix", {}).get("suite", [""])
    scripts = [step["run"] for step in job["steps"] if "run" in step]
    return [script.replace('"$SUITE"', suite) for suite in suites for script in scripts]


@pytest.mark.parametrize("suite", SUITES)
def test_each_suite_has_a_job(suite: str) -> None:
    """A job runs `make SUITE`, or the command of its recipe where there is no make."""
    recipe = MAKEFILE.partition(f"\n{suite}:")[2].partition("\n\n")[0].splitlines()[1:]
    recipe = [line.replace("$(PYTEST)", "python -m pytest") for line in recipe]
    accepted = {line.strip("\t@").removeprefix("$(VENV)/bin/") for line in recipe}
    commands = {command for job in JOBS.values() for command in list_commands(job)}
    assert ({f"make {suite}"} | accepted) & commands


def test_a_suite_without_a_job_is_found() -> None:
    job = {"strategy": {"matrix": {"suite": ["lint"]}}, "steps": [{"run": 'make "$SUITE"'}]}
    assert "test-docker" in SUITES
    assert list_commands(job) == ["make lint"]


def test_unit_tests_run_on_each_platform_and_python() -> None:
    unit = JOBS["unit"]["strategy"]["matrix"]
    assert [name.partition("-")[0] for name in unit["os"]] == ["ubuntu", "macos", "windows"]
    assert unit["python"] == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    tests = JOBS["test"]["strategy"]["matrix"]
    assert tests["python"] == ["3.10", "3.11", "3.12"]
    assert [run["os"] for run in tests["include"]] == ["ubuntu-24.04-arm"]


def test_no_path_stops_a_checkout_on_windows() -> None:
    folders = (".github", "docs", "examples", "hooks", "src", "template", "tests")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    names = {path.relative_to(ROOT).as_posix() for path in paths}
    assert [name for name in names if re.search(r'[<>:"|?*\\]|[. ](/|$)', name)] == []


def list_imports(path: Path) -> Iterator[str]:
    """Yield the modules that Python imports when it imports a file. Names in functions and `try` are left out."""
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            inside = path.relative_to(ROOT).parts[1 : -statement.level] if statement.level else ()
            module = ".".join([*inside, *filter(None, [statement.module])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in statement.names)


def find_file(module: str) -> Path | None:
    """Return the file of a module of this repository."""
    stem = module.replace(".", "/")
    paths = (folder / name for folder in FOLDERS for name in (f"{stem}.py", f"{stem}/__init__.py"))
    return next((path for path in paths if path.exists()), None)


def is_missing(module: str) -> bool:
    """Return whether some platform of the unit tests lacks a module that is not of this repository."""
    top = module.partition(".")[0]
    if module.startswith(UNLOCKED) or top in POSIX:
        return True
    is_ours = find_file(top) or any((folder / top).is_dir() for folder in FOLDERS)
    if is_ours or top in sys.stdlib_module_names:
        return False
    return PACKAGES.get(top, top.replace("_", "-")) not in LOCKED


def find_missing(paths: list[Path]) -> set[str]:
    """Return `file: module` for each import that some platform lacks, in files and what they import in turn."""
    missing, seen, waiting = set(), set(paths), list(paths)
    while waiting:
        path = waiting.pop()
        for module in list_imports(path):
            file = find_file(module)
            if file and file not in seen:
                seen.add(file)
                waiting.append(file)
            elif not file and is_missing(module):
                missing.add(f"{path.relative_to(ROOT).as_posix()}: {module}")
    return missing


def test_unit_tests_import_what_each_platform_has() -> None:
    """A package that is missing goes into UNIT of scripts/lock.py. A module of POSIX goes into a function."""
    assert find_missing(UNIT_FILES) == set()


def test_an_import_that_a_platform_lacks_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        "import fcntl\nfrom tritonclient import http\nimport os, support, torch, yaml\n"
    )
    missing = [module for module in list_imports(path) if is_missing(module)]
    assert missing == ["fcntl", "tritonclient.http", "torch"]
