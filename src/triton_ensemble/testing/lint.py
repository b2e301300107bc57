"""Run ruff and mypy over the project, as its pyproject.toml says."""

from __future__ import annotations

import argparse
import subprocess
import sys

UNFORMATTED = "Some files are not formatted; run: make format"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare whether to leave out what takes long."""
    quick = "run ruff alone, which takes a second"
    parser.add_argument("--quick", action="store_true", help=quick)


def run(arguments: argparse.Namespace) -> int:
    """Run the linters. Return 1 if a tool finds anything."""
    if run_module("ruff", "check", *["--quiet"] * arguments.quick, "."):
        return 1
    if run_module("ruff", "format", "--quiet", "--check", "."):
        print(UNFORMATTED, file=sys.stderr)
        return 1
    return 0 if arguments.quick else run_module("mypy", ".")


def run_module(*words: str) -> int:
    """Run a tool of the environment. Return 1 if it fails."""
    sys.stdout.flush()
    return int(subprocess.run([sys.executable, "-m", *words]).returncode != 0)
