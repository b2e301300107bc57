"""`make bench GATE=...` on two real Tritons: what passes, what fails, and a base that can't be measured."""

from __future__ import annotations

import re

import pytest
from step_code import step_code
from support import Generate, Project, step, succeed

SHORT = "ARGS=--pairs 8 --seconds 0.3 --concurrency 1"
CODE = "def __call__(self, A):\n    import time\n    time.sleep({})\n    return {{'B': A}}\n"


def write_step(project: Project, seconds: float) -> None:
    (project / "steps/work.py").write_text(step_code(CODE.format(seconds)))


@pytest.fixture(scope="module")
def base(generate: Generate) -> Project:
    """Return a project at a commit, whose step takes 20 ms."""
    project = generate(
        project_name="gated",
        tensors=dict.fromkeys("AB", "FP32[1]"),
        steps=[step("work", ["A"], ["B"])],
    )
    (project / "samples/one.json").write_text('{"inputs": {"A": [[1.0]]}}')
    write_step(project, 0.02)
    project.commit()
    return project


@pytest.mark.slow
def test_half_the_speed_fails_and_the_same_speed_does_not(base: Project) -> None:
    succeed(base.make("bench", "ARGS=--concurrency 1 --seconds 1 --out bench/base"))
    assert base.changes() == "?? bench/\n"  # without the files of other runs
    write_step(base, 0.04)
    process = base.make("bench", "GATE=bench/base.json", SHORT)
    rows = re.findall(
        r"^(\S+).* (0\.[456]|[12]\.)\d+ \(99%\)  worse$", process.stdout, re.MULTILINE
    )
    assert [name for name, _ in rows] == ["requests/s", "p99"], process.stdout
    assert process.returncode
    write_step(base, 0.02)
    printed = succeed(base.make("bench", "GATE=HEAD", SHORT))
    assert "worse" not in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "was", "broken", "said"),
    [
        (
            "steps/work.py",
            "class",
            "import nowhere\nclass",
            "ModuleNotFoundError: No module named 'nowhere'",
        ),
        ("vendor/project.json", '"A"', '"X"', "takes other requests (X FP32); choose a newer base"),
        ("vendor/project.json", "{", "", "vendor/project.json: "),
        ("pipeline.yml", "tensors", "tensor", "pipeline.yml is not applied"),
    ],
)
def test_a_base_that_cannot_be_measured_is_one_line(
    base: Project, file: str, was: str, broken: str, said: str
) -> None:
    now = (base / file).read_text()
    (base / file).write_text(now.replace(was, broken))
    base.commit()
    (base / file).write_text(now)
    process = base.make("bench", "GATE=HEAD", SHORT)
    [line, _] = process.stderr.splitlines()  # the other is make's
    assert line.startswith("GATE=HEAD: commit ")
    assert said in line
