"""A step that is not ready fails the tests of the generated project, with a line that names the mistake."""

from __future__ import annotations

import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from support import PIPELINES, Generate, Project, step, succeed

STEP = """import os
import random
import time

import numpy as np

from triton_step import InvalidRequest

kept = []
before = {{}}


class Step:
    def __init__(self, context):
        self.context = context

    def {method}(self, IN):
        out = IN * 2
        {change}
        {result}
"""
GOOD = {"method": "__call__", "change": "pass", "result": 'return {"OUT": out}'}
MUTANTS = {
    "no return": ({"result": "pass"}, "step work: returned NoneType; return a mapping"),
    "a tuple": ({"result": "return (out,)"}, "step work: returned tuple; return a mapping"),
    "wrong type": (
        {"change": "out = out.astype('f8')"},
        "returned float64 for OUT, which is float32",
    ),
    "wrong shape": (
        {"change": "out = out[:, None]"},
        r"returned the shape \[1, 1, 2\] for OUT, not",
    ),
    "a row missing": (
        {"change": "out = out[1:]"},
        r"returned the shape \[0, 2\] for OUT, not \[1, -1\]",
    ),
    "output missing": ({"result": "return {}"}, "step work: returned no OUT"),
    "one too many": (
        {"result": 'return {"OUT": out, "B": out}'},
        "returned B, which is not one of its",
    ),
    "misspelt method": ({"method": "__cal__"}, "step work: class Step has no method __call__"),
    "raises": ({"change": "raise KeyError('gone')"}, "step work failed(.|\n)*KeyError: 'gone'"),
    "sleeps": ({"change": "time.sleep(9e9)"}, r"step work, given zeros: gave no answer in 3 s"),
    "leaks": (
        {"change": "kept.append(os.urandom(1 << 20))"},
        r"step work keeps 1\d\d\d KiB of memory a call",
    ),
    "mutates its input": ({"change": "IN[:] = 0"}, "assignment destination is read-only"),
    "exits": (
        {"change": "os._exit(3)"},
        "step work, given zeros: ended its process with exit code 3",
    ),
    "prints": ({"change": "print('hello')"}, r"step work prints 'hello\\n"),
    "undeclared package": ({"change": "import yaml"}, "steps/work.py imports yaml; add .*pyyaml"),
    "random shape": (
        {"change": "out = np.zeros((len(IN), random.randrange(1, 9)), np.float32)"},
        r"answers once .* and once",
    ),
    "the answer to the request before": (
        {"change": "now, out = out, before.get(out.shape, out); before[now.shape] = now"},
        r"step work, given zeros, answers otherwise after others, so it keeps something between calls:\nOUT\[0, 0\]: expected 0.0, got ",
    ),
    "a wrong row": (
        {"change": "out[3:] = 0.5"},
        r"as row 3 of 4:\nOUT\[0, 0\]: expected 0.0, got 0.5; 1 more differ\nif they may differ: ",
    ),
    "rows in another order": (
        {"change": "out = out[::-1]"},
        "step work, given random values, answers otherwise as row 0 of 4:",
    ),
}
RANDOM = "out = np.random.default_rng().random(IN.shape, np.float32)"
SLOW = "time.sleep(0.3)"


@pytest.fixture(scope="module")
def project(generate: Generate) -> Project:
    tensors = {"IN": "FP32[-1]", "OUT": "FP32[-1]"}
    return generate(tensors=tensors, steps=[step("work", ["IN"], ["OUT"])])


ILL_TYPED = """import numpy as np
from numpy.typing import NDArray

from step_types import WorkOutputs
from triton_step import Context


class Step:
    def __init__(self, context: Context) -> None: ...

    def __call__(self, {argument}: NDArray[np.{type}]) -> WorkOutputs:
        out = np.zeros((1, 2), np.{returned})
        return {{"{output}": out}}
"""
WELL_TYPED = {"argument": "IN", "type": "float32", "output": "OUT", "returned": "float32"}
MISTYPED = {
    "argument": ("X", "Incompatible return value type"),
    "type": ("int64", "Incompatible return value type"),
    "output": ("OUTPUT", 'Missing key "OUT"|Extra key "OUTPUT"'),
    "returned": ("float64", "Incompatible types"),
}


def contract_test(
    project: Project, *options: str, **changes: str
) -> subprocess.CompletedProcess[str]:
    (project / "steps/work.py").write_text(STEP.format(**{**GOOD, **changes}))
    succeed(project.make("repository"))
    options = ("-o", "contract_timeout_s=3", *options)
    return project.run(
        sys.executable, "-m", "pytest", "-q", "-x", "tests/test_contract.py", *options
    )


@pytest.mark.slow
def test_a_good_step_passes(project: Project) -> None:
    done = contract_test(project)
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout
    assert "warning" not in done.stdout


@pytest.mark.slow
def test_random_values_pass_and_are_said(project: Project) -> None:
    done = contract_test(project, change=RANDOM)
    assert done.returncode == 0, done.stdout
    assert "OUT: equal requests get different answers, so values are not compared" in done.stdout


@pytest.mark.slow
def test_an_owner_takes_any_values(project: Project) -> None:
    golden = project / "tests/golden.json"
    golden.write_text('{"tolerances": {"OUT": null}}')
    done = contract_test(project, change=RANDOM)
    golden.unlink()
    assert done.returncode == 0, done.stdout
    assert "warning" not in done.stdout


@pytest.mark.slow
def test_a_slow_step_is_asked_less_often(project: Project) -> None:
    done = contract_test(project, "-o", "contract_budget_s=1", change=SLOW)
    assert done.returncode == 0, done.stdout
    assert re.search(r"step work is slow: [4-6] of 20 tries in 1 s", done.stdout), done.stdout
    assert "5 passed, 1 skipped" in done.stdout  # of memory it tells nothing


@pytest.fixture(scope="module")
def failures(generate: Generate, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what the contract test says of each mutant. All are steps of one project."""
    names = {mutant: mutant.replace(" ", "_") for mutant in MUTANTS}
    steps = [
        step(name, ["IN"], {"OUT": f"OUT_{name}"}, fuse=False, max_batch_size=8)
        for name in names.values()
    ]
    tensors = dict.fromkeys(["IN", *(f"OUT_{name}" for name in names.values())], "FP32[-1]")
    project = generate(tensors=tensors, steps=steps)
    for mutant, name in names.items():
        (project / f"steps/{name}.py").write_text(STEP.format(**{**GOOD, **MUTANTS[mutant][0]}))
    succeed(project.make("repository"))
    report = tmp_path_factory.mktemp("report") / "junit.xml"
    options = ("-o", "contract_timeout_s=3", "-o", "contract_budget_s=5", f"--junitxml={report}")
    project.run(sys.executable, "-m", "pytest", "-q", "tests/test_contract.py", *options)
    said = dict.fromkeys(MUTANTS, "")
    for case in ElementTree.parse(report).iter("testcase"):
        text = "".join(
            f"{each.get('message')}\n{each.text}\n"
            for each in [*case.iter("failure"), *case.iter("error")]
        )
        for mutant, name in names.items():
            if re.search(rf"\b{name}\b", f"{case.get('name')} {text}"):
                said[mutant] += text
    return said


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(failures: dict[str, str], name: str) -> None:
    line = MUTANTS[name][1].replace("work", name.replace(" ", "_"))
    assert re.search(line, failures[name]), failures[name]


NEEDS = """class Step:
    def __init__(self, context): ...

    def __call__(self, IN, MORE{default}):
        return {{"OUT": IN + {more}}}
"""


@pytest.mark.slow
def test_each_step_is_asked_without_what_requests_may_leave_out(generate: Generate) -> None:
    more = {"type": "FP32", "dims": [2], "optional": True}
    tensors = {"IN": "FP32[2]", "MORE": more, "OUT": "FP32[2]"}
    project = generate.complete(tensors=tensors, steps=[step("work", ["IN", "MORE"], ["OUT"])])

    def tested(more: str) -> str:
        (project / "steps/work.py").write_text(NEEDS.format(default="=None", more=more))
        succeed(project.make("repository"))
        return project.run(sys.executable, "-m", "pytest", "-q", "tests/test_contract.py").stdout

    assert "given zeros without MORE: step work failed" in tested("MORE")
    assert "failed" not in tested("(0 if MORE is None else MORE)")


def all_tests(project: Project) -> str:
    """Return what pytest prints of the tests that the template writes, with live ones, as far as steps are good enough."""
    succeed(project.make("repository"))
    tests = ("tests/test_contract.py", "tests/test_live.py")
    done = project.run(sys.executable, "-m", "pytest", "-q", *tests)
    assert done.returncode == 1, done.stdout
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "passed"),
    {
        "wrong type": 1,
        "raises": 1,
        "misspelt method": 1,
        "the answer to the request before": 3,
    }.items(),
)
def test_what_follows_from_a_mistake_is_skipped(project: Project, name: str, passed: int) -> None:
    """Imports are checked all the same, as is, of a step that answers, whether it prints and leaks."""
    changes, line = MUTANTS[name]
    (project / "steps/work.py").write_text(STEP.format(**{**GOOD, **changes}))
    said = all_tests(project)
    assert re.search(line, said), said
    [counts] = re.findall(
        r"^(1 failed|)(?:, )?(\d+) passed, (\d+) skipped(?:, (1 error))? in", said, re.M
    )
    assert [counts[0] + counts[3], counts[1]] in (
        ["1 failed", str(passed)],
        ["1 error", str(passed)],
    )
    assert f"\n{counts[2]} skipped: step work fails test_keeps_its_contract[work/1]\n" in said


@pytest.mark.slow
def test_what_does_not_follow_from_a_mistake_is_told(project: Project) -> None:
    changes, _ = MUTANTS["prints"]
    (project / "steps/work.py").write_text(STEP.format(**{**GOOD, **changes}))
    said = all_tests(project)
    assert re.search(r"^1 failed, [2-9]\d passed", said, re.M), said
    assert " skipped: " not in said


@pytest.mark.slow
def test_of_steps_that_share_a_process_the_one_at_fault_is_named_once(generate: Generate) -> None:
    tensors = dict.fromkeys("ABC", "FP32[2]")
    project = generate(
        tensors=tensors, steps=[step("one", ["A"], ["B"]), step("two", ["B"], ["C"])]
    )
    code = project / "steps/two.py"
    code.write_text(code.read_text().replace("np.float32)", "np.float64)"))
    said = all_tests(project)
    assert re.findall("^(?:FAILED|ERROR) (.*) - ", said, re.M) == [
        "tests/test_contract.py::test_keeps_its_contract[one_to_two/1:two]"
    ]
    assert " skipped: step two fails test_keeps_its_contract[one_to_two/1:two]\n" in said


@pytest.mark.slow
def test_a_server_that_cannot_start_is_told_once(generate: Generate) -> None:
    project = generate.complete(**PIPELINES["no batch dimension"])
    (project / "model_repository/net/1/model.onnx").write_bytes(b"none")
    said = all_tests(project)
    assert re.search(r"^5 passed, \d+ skipped, 1 error in", said, re.M), said
    assert " skipped: Triton can't start\n" in said


def type_check(project: Project, **changes: str) -> subprocess.CompletedProcess[str]:
    (project / "steps/work.py").write_text(ILL_TYPED.format(**{**WELL_TYPED, **changes}))
    return project.run(sys.executable, "-m", "mypy", "steps", "src/step_types.py")


def test_a_well_typed_step_passes_mypy(project: Project) -> None:
    done = type_check(project)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("what", MISTYPED)
def test_mypy_checks_the_step(project: Project, what: str) -> None:
    value, line = MISTYPED[what]
    done = type_check(project, **{what: value})
    assert re.search(line, done.stdout), done.stdout
