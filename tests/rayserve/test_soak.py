"""What a replica's Triton uses does not grow with the calls that it answers and refuses."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from rayserve import soak
from support import SOURCES, Generate, run, step, succeed

BINDINGS = os.environ.get("TRITON_BINDINGS", "")
IN_PROCESS = pytest.mark.skipif(not BINDINGS, reason="see test_in_process.py")
STEP = """from triton_step import Context, InvalidRequest


class Step:
    def __init__(self, context: Context) -> None:
        pass

    def __call__(self, INPUT):
        if (INPUT < 0).any():
            raise InvalidRequest("INPUT: is below 0")
        return {"OUTPUT": INPUT * 2}
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), pytest.param(("--in-process",), marks=IN_PROCESS)])
def test_what_a_replica_uses_stays(generate: Generate, options: tuple[str, ...]) -> None:
    project = generate(
        project_name="waiting",
        tensors=dict.fromkeys(["INPUT", "OUTPUT"], "FP32[1]"),
        steps=[step("wait", ["INPUT"], ["OUTPUT"])],
        extras=["gateway", "ray"],
    )
    (project / "steps/wait.py").write_text(STEP)
    succeed(project.make("repository"))
    helpers = Path(soak.__file__).parents[1]
    path = os.pathsep.join([BINDINGS, str(SOURCES), str(helpers), os.environ.get("PYTHONPATH", "")])
    command = (sys.executable, "-m", "rayserve.soak", str(project.path), "--calls=20000", *options)
    assert "refused" in succeed(run(*command, cwd=project.path, PYTHONPATH=path))
