"""Short runs of benchmarks/rayserve/soak.py, whose long ones are recorded in its README."""

from __future__ import annotations

import os
import sys

import pytest
from support import ROOT, SOURCES, run, succeed

BINDINGS = os.environ.get("TRITON_BINDINGS", "")
IN_PROCESS = pytest.mark.skipif(not BINDINGS, reason="see test_in_process.py")


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), pytest.param(("--in-process",), marks=IN_PROCESS)])
def test_what_a_replica_uses_stays(options: tuple[str, ...]) -> None:
    command = (sys.executable, "-m", "benchmarks.rayserve.soak", "--calls=20000", *options)
    path = os.pathsep.join([BINDINGS, str(SOURCES), os.environ.get("PYTHONPATH", "")])
    assert "refused" in succeed(run(*command, cwd=ROOT, PYTHONPATH=path))
