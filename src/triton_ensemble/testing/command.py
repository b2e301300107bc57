"""Run the tests of the project, and then mypy over all of it.

From the wheel, as `make test` starts it, ruff and the check come first: what fails soonest says so soonest.
"""

from __future__ import annotations

import argparse

from triton_ensemble.testing.lint import run_module


def run(arguments: argparse.Namespace) -> int:
    """Run the tests and mypy. Return 1 if a test or mypy fails."""
    return run_module("pytest") or run_module("mypy", ".")
