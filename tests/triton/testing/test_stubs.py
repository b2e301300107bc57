"""Code that is still as it was generated is named by the commands that would otherwise look as if all were done."""

from __future__ import annotations

import re

import pytest
from support import Generate, Project, succeed

STUBS = "2 files are stubs: models/predict.py, steps/prepare.py; fill in and delete the line `# A stub: ...`"
NO_SAMPLE = 'samples/stub.json: is a stub; record a request: make sample ARGS="INPUT=JSON" NAME=one'

PIPELINE = "tests/test_reference.py: pipeline() is a stub; compute the outputs by the original code, or delete it"
REFERENCE = "from triton_ensemble.testing.reference import *  # noqa: F403\n"


@pytest.fixture
def project(generate: Generate) -> Project:
    return generate(starting_pipeline="my-own")


@pytest.mark.parametrize("command", ["check", "infer"])
def test_stubs_are_named_in_the_last_lines(project: Project, command: str) -> None:
    process = project.make(command)
    succeed(process)
    assert process.stderr.splitlines()[-2:] == [STUBS, NO_SAMPLE]


@pytest.mark.slow
def test_strict_refuses_what_is_not_filled_in(project: Project) -> None:
    assert project.make("check", "STRICT=1").returncode == 2
    assert project.make("check", "STRICT=").returncode == 0
    for name in ("steps/prepare.py", "models/predict.py"):
        text = (project / name).read_text()
        (project / name).write_text(re.sub("# A stub: .*\n", "", text))
    assert project.make("check", "STRICT=1").stderr.splitlines()[1] == NO_SAMPLE
    succeed(project.make("sample", "ARGS=INPUT=[1,2,3,4]", "NAME=one"))
    assert project.make("check", "STRICT=1").stderr.splitlines()[1] == PIPELINE
    assert "stub" not in project.make("check", "STRICT=").stderr
    (project / "tests/test_reference.py").write_text(REFERENCE)
    process = project.make("check", "STRICT=1")
    succeed(process)
    assert "stub" not in process.stderr


def test_an_example_has_no_stub(default_project: Project) -> None:
    assert "stub" not in default_project.make("check", "STRICT=1").stderr
