"""The files of a project: which are written, in which form, and that it passes its own linters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from rendering_support import (
    TEN,
    fan,
    project,  # noqa: F401
    without_answers,
)
from support import (
    MATRIX,
    PIPELINES,
    UNUSUAL,
    Generate,
    Project,
    call,
    run,
    slow_but,
    step,
    succeed,
)

from triton_ensemble.facts.answers import FILE

if sys.version_info >= (3, 11):
    pass
else:
    pass


@pytest.mark.parametrize("name", slow_but("default", names=PIPELINES | UNUSUAL))
def test_the_project_passes_its_own_linters(generate: Generate, name: str) -> None:
    """Managed code is typed throughout, which projects do not ask of their owners."""
    project = generate(**(PIPELINES | UNUSUAL)[name])
    succeed(project.make("lint"))
    strict = ("mypy", "--config-file=", "--strict", "--explicit-package-bases")
    # An import alone finds steps/NAME/, not the steps/NAME.py beside it.
    folders = [name for name in ("src", "steps") if (project / name).exists()]
    succeed(project.run(sys.executable, "-m", *strict, *folders, MYPYPATH="src"))


UNTYPED = """import nosuch
import sklearn


def scaled(values, by=2):
    return [nosuch.scale(value) * by for value in values]


def build(path):
    path.write_bytes(bytes(scaled(sklearn.values)))
"""
CALL = """from models.own import scaled

TWICE: list[int] = scaled([1])


"""


@pytest.mark.slow
def test_what_owners_write_need_not_be_typed(generate: Generate) -> None:
    project = generate(**PIPELINES["one model"])
    (project / "models/own.py").write_text(UNTYPED)
    test = project / "tests/test_own.py"
    test.write_text(f"{CALL}def test_it():\n    assert scaled([1]) == [2]\n")
    succeed(project.make("lint"))


def test_ten_steps_pass_the_linters(generate: Generate) -> None:
    """They have more names than fit in a line, which neither sort nor format as they are written."""
    succeed(generate(**TEN).make("lint"))


LONG = "_a_name_that_says_what_it_is_for_and_is_used_"
OF_ALL_KINDS = ["python", "onnxruntime", "openvino", "tensorrt", "python"]


def chain(steps: int, name: str = "_") -> dict[str, Any]:
    """Steps one after another, of several backends."""
    tensors = [f"T{name}{i}" for i in range(steps + 1)]
    chained = [
        step(f"s{name}{i}", [tensors[i]], [tensors[i + 1]], OF_ALL_KINDS[i % 5])
        for i in range(steps)
    ]
    return {"tensors": dict.fromkeys(tensors, "FP32[-1, 4]"), "steps": chained, "gpu_count": 1}


def heads(outputs: int) -> dict[str, Any]:
    """A TorchScript model with that many outputs."""
    names = [f"HEAD_{i}" for i in range(outputs)]
    one = step("detect", ["IMAGE"], names, "pytorch")
    return {"tensors": {"IMAGE": "FP32[3]", **dict.fromkeys(names, "FP32[4]")}, "steps": [one]}


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param(fan(10, LONG), id="fan of 10 with long names"),
        *(
            pytest.param(answers, marks=MATRIX)
            for answers in (*map(chain, (7, 10, 25)), *map(fan, (7, 25)), chain(7, LONG), heads(12))
        ),
    ],
)
def test_whatever_its_size_a_project_passes_the_linters(
    generate: Generate, answers: dict[str, Any]
) -> None:
    succeed(generate(**answers).make("lint"))


START = {"kind": "CONTROL_SEQUENCE_START", "fp32_false_true": [0, 1]}
CONTROLS = {"direct": {}, "control_input": [{"name": "class", "control": [START]}]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ({"sequence": CONTROLS}, 8),
        pytest.param({"decoupled": True}, 8, marks=pytest.mark.slow),
        pytest.param({}, 0, marks=pytest.mark.slow),
    ],
)
def test_stubs_of_all_kinds_are_tested_and_clean(
    generate: Generate, fields: dict[str, Any], rows: int
) -> None:
    """The project's own tests and linters say so, where its smoke tests need other clients."""
    tensors = {"A": "FP32[4]", "B": "STRING[2]"}
    steps = [step("a", ["A"], ["B"], **fields)]
    project = generate(tensors=tensors, max_batch_size=rows, steps=steps)
    succeed(project.make("lint"))
    succeed(project.make("repository"))
    tests = ("tests/test_steps.py", "tests/test_contract.py")
    succeed(project.run(sys.executable, "-m", "pytest", "-q", *tests))


def test_a_step_of_tensors_that_returns_texts_imports_what_it_uses(generate: Generate) -> None:
    on_gpu: dict[str, Any] = {"device": "gpu", "requirements": ["torch==2.13.0"]}
    steps = [step("judge", ["A"], ["B"], **on_gpu), step("again", ["B", "A"], ["C"], **on_gpu)]
    tensors = {"A": "FP32[4]", "B": "STRING[1]", "C": "STRING[1]"}
    project = generate(gpu_count=1, tensors=tensors, steps=steps)
    succeed(project.run(sys.executable, "-m", "ruff", "check", "steps"))


def test_from_a_folder_on_a_machine_without_git(
    template: Path, generate: Generate, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    command = (sys.executable, "-m", "copier", "copy", "--defaults", "--quiet", str(template), "p")
    succeed(run(*command, cwd=tmp_path, PATH=str(tmp_path / "bin")))
    assert without_answers(tmp_path / "p") == without_answers(generate().path)


def test_render_writes_the_files_that_copier_made(generate: Generate, tmp_path: Path) -> None:
    project = generate(extras=["gateway", "ray"])
    assert call(project, "render", "--answers", FILE, "--into", str(tmp_path)) == (0, "", "")
    made, rendered = project.contents(), Project(tmp_path).contents()
    assert rendered == {path: made[path] for path in rendered}
    left = {path for path in made.keys() - rendered.keys() if not path.endswith(".whl")}
    examples = {
        path for path in left if path.startswith(("models/", "samples/", "steps/", "tests/"))
    }
    assert left - examples == {
        "requirements.lock",
        "requirements-dev.lock",
        "vendor/requirements.txt",
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [", "1: "),
        ("gpu_count: -1", " gpu_count is -1; write a whole number, 0 or more"),
    ],
)
def test_render_refuses_in_one_line(
    generate: Generate, tmp_path: Path, text: str, line: str
) -> None:
    answers = tmp_path / "answers.yml"
    answers.write_text(text)
    said = call(generate(), "render", "--answers", str(answers), "--into", str(tmp_path / "p"))
    assert said.status == 1
    assert said.err.startswith(f"{answers}:{line}")
    assert not (tmp_path / "p").exists()
