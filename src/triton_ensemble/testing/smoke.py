"""The live tests of a project, run against a server that runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

WIDE = "1000"  # columns: pytest cuts the reason of a failed test to the width of the terminal


def failures(root: Path, urls: Mapping[str, str]) -> list[str]:
    """Return the tests of the project in `root` that fail, a line each with its reason.

    `urls` are variables of the environment, as testing.fixtures reads them: TRITON_URL and others.
    """
    tests = sorted(str(path.relative_to(root)) for path in root.glob("tests/test_live*.py"))
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "--no-header", *tests]
    command += ["-p", "no:cacheprovider"]
    environment = {**os.environ, "COLUMNS": WIDE, **urls}
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    if not run.returncode:
        return []
    failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    last = (run.stdout + run.stderr).strip().splitlines()[-1:]
    return failed or last or ["it did not run"]
