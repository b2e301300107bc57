"""Format the project's code, and correct what ruff can correct, as `lint` expects it."""

from __future__ import annotations

import argparse

from triton_ensemble.testing.lint import run_module


def run(arguments: argparse.Namespace) -> int:
    """Format the project. Return 1 if ruff can't correct a finding."""
    return run_module("ruff", "check", "--quiet", "--fix", ".") or run_module("ruff", "format", ".")
