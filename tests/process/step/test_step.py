"""`make step`: one step on a sample, in the foreground, from the owner's file."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from support import SOURCES, UNUSUAL, Generate, Project, serve, step, succeed, variables

Edit = Callable[..., None]


@pytest.fixture(scope="module")
def digits(generate: Generate) -> Project:
    return generate()


@pytest.fixture
def edit(digits: Project) -> Any:
    """Return what replaces a text of a step's file. The file is as before when the test ends."""
    before = {path: path.read_text() for path in (digits / "steps").glob("*.py")}

    def replace(name: str, old: str, new: str) -> None:
        path = digits / f"steps/{name}.py"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    yield replace
    for path, text in before.items():
        path.write_text(text)


def refused(project: Project, *arguments: str) -> str:
    """Return the last line of its own that a failing `make step` prints."""
    process = project.make("step", *arguments)
    assert process.returncode
    assert "triton_ensemble" not in process.stderr
    return process.stderr.splitlines()[-2]


@pytest.mark.slow
def test_a_step_runs_on_what_the_steps_before_it_return(digits: Project) -> None:
    process = digits.make("step", "NAME=label", "SAMPLE=digits-2-6")
    printed, part = succeed(process), r"\d+\.\d{4}"
    parts = f"seconds: loading {part}, inputs {part}, step {part}, outputs {part}\n"
    assert re.fullmatch(parts, process.stderr)
    assert "step label, steps/label.py, on sample digits-2-6\n  LOGITS float32[2, 10]\n" in printed
    assert "LABEL bytes[2, 1]\n    2\n    6\n  SCORE" in printed


@pytest.mark.slow
def test_what_reached_it_is_recorded_until_it_may_be_another(digits: Project, edit: Edit) -> None:
    command = ("step", "NAME=label", "SAMPLE=digit-7")
    first, again = succeed(digits.make(*command)), succeed(digits.make(*command))
    assert "Starting a local Triton" in first
    assert (
        again == "as recorded in build/steps/label.digit-7.json:\n" + first[first.index("step ") :]
    )
    edit("label", "LABELS[best]", 'LABELS[best] + b" seven"')
    changed = succeed(digits.make(*command))
    assert "seven" in changed
    assert "Starting" not in changed
    edit("preprocess", "return {", "ink = 1 - ink\n        return {")
    assert "Starting a local Triton" in succeed(digits.make(*command))


@pytest.mark.slow
def test_what_reaches_it_without_an_optional_input_is_not_recorded(generate: Generate) -> None:
    """It would be no request of the step's model, but be taken for one of the pipeline."""
    optional = {"type": "FP32", "dims": [1], "optional": True}
    steps = [step("a", ["A"], ["M"], fuse=False), step("b", ["M", "B"], ["C"], fuse=False)]
    tensors = {"A": "FP32[1]", "M": "FP32[1]", "B": optional, "C": "FP32[1]"}
    project = generate(tensors=tensors, steps=steps)
    (project / "samples/one.json").write_text('{"inputs": {"A": [[1]]}}')
    for _ in range(2):
        printed = succeed(project.make("step", "NAME=b", "SAMPLE=one"))
        assert "Starting a local Triton with a ..." in printed


def test_the_first_step_needs_no_server(digits: Project) -> None:
    printed = succeed(digits.make("step", "NAME=preprocess"))
    assert "Triton" not in printed
    assert "PIXELS float32[1, 64]\n" in printed


@pytest.mark.slow
def test_a_server_that_runs_is_asked(digits: Project) -> None:
    with serve(digits) as server:
        port = server.urls["grpc"].rpartition(":")[2]
        printed = succeed(digits.make("step", "NAME=label", f"GRPC_PORT={port}"))
        url = succeed(digits.make("step", "NAME=label", TRITON_URL=server.urls["grpc"]))
    assert re.match(
        rf"asks the Triton at port {port}, process \d+ \(tritonserver\) since [\d:]+; ", printed
    )
    assert "LABEL bytes[1, 1]\n    7\n" in printed
    assert "LABEL bytes[1, 1]\n    7\n" in url


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "which step? Write make step NAME=preprocess; there are preprocess, label"),
        (["NAME=classify"], "classify: has no code in steps/; NAME is one of preprocess, label"),
        (["NAME=lable"], "lable: is not a step; NAME is one of preprocess, label"),
        (
            ["NAME=label", "SAMPLE=no"],
            "SAMPLE=no: not found; write a file, or one of digit-7-png, digit-7, digits-2-6",
        ),
    ],
)
def test_what_there_is_not(digits: Project, arguments: list[str], line: str) -> None:
    assert refused(digits, *arguments) == line


def test_an_error_is_shown_in_the_owners_file(digits: Project, edit: Edit) -> None:
    edit("label", "        best = ", "        LOGITS.nosuch\n        best = ")
    process = digits.make("step", "NAME=label")
    first, place, *_ = process.stderr.splitlines()
    assert process.returncode
    assert first == "Traceback (most recent call last):"
    assert place.startswith(f'  File "{digits / "steps/label.py"}", line ')
    assert "triton_adapter" not in process.stderr


@pytest.mark.slow
def test_a_file_that_is_no_python_stops_no_server(digits: Project, edit: Edit) -> None:
    edit("label", "        best = ", "        best = = ")
    shutil.rmtree(digits / "build/steps", ignore_errors=True)
    process = digits.make("step", "NAME=label")
    assert "Starting a local Triton with preprocess, classify" in process.stdout
    assert f'File "{digits / "steps/label.py"}", line ' in process.stderr
    assert "SyntaxError: invalid syntax" in process.stderr


@pytest.mark.slow
def test_what_the_step_refuses_or_returns_wrongly_is_one_line(digits: Project, edit: Edit) -> None:
    body = "        best = "
    edit("label", body, f'        raise InvalidRequest("no digit")\n{body}')
    edit("label", "import Context", "import Context, InvalidRequest")
    assert refused(digits, "NAME=label") == "step label: InvalidRequest: no digit"
    edit("label", '        raise InvalidRequest("no digit")', "        return {}  # type: ignore")
    assert refused(digits, "NAME=label").startswith("step label: StepError: returned no ")


@pytest.mark.slow
def test_a_model_before_it_that_fails_is_named(digits: Project, edit: Edit) -> None:
    edit("preprocess", "def __call__", "def __call__(self, IMAGE): return {}\n\n    def other")
    line = refused(digits, "NAME=label")
    assert (
        line == "preprocess, which runs before, has no answer: step preprocess: returned no PIXELS"
    )


def debugged(project: Project, *commands: str) -> str:
    process = subprocess.run(
        project.make_command("step", "NAME=label", "DEBUG=1"),
        cwd=project.path,
        env=variables(PYTHONPATH=f"src:{SOURCES}"),
        input="".join(f"{command}\n" for command in commands),
        capture_output=True,
        text=True,
    )
    return process.stdout


@pytest.mark.slow
def test_the_debugger_stops_where_the_step_begins_and_where_it_fails(
    digits: Project, edit: Edit
) -> None:
    edit("label", "        best = ", "        LOGITS.nosuch\n        best = ")
    printed = debugged(digits, "p LOGITS.shape", "continue", "p LOGITS.dtype", "quit")
    assert printed.count("-> LOGITS.nosuch") == 2
    assert "(Pdb) (1, 10)" in printed
    assert "(Pdb) dtype('float32')" in printed


def test_the_debugger_may_be_left(digits: Project) -> None:
    assert "returned:" in debugged(digits, "next", "continue")
    assert "Traceback" not in debugged(digits, "quit")


HEAD = "# Yours\nfrom triton_step import Context\n\n\nclass Step:\n    def __init__(self, context):\n        self.context = context\n\n"
CODE = {
    "one": "    def __call__(self, A):\n        return {'B': A + 1}\n",
    "two": "    async def __call__(self, B):\n        return {'C': B * 2}\n",
    "three": "    def __call__(self, C):\n        return {'D': self.context.calls.four(x=C)['y'] - 1}\n",
    "four": "    def __call__(self, x):\n        return {'y': x * 10}\n",
    "five": "    def __call__(self, D):\n        yield {'E': D}\n        yield {'E': -D}\n",
}
OWN = {"type": "FP32", "dims": [1]}
FIVE = ["returned:", "E float32[1]", "79.0", "returned:", "E float32[1]", "-79.0"]


@pytest.fixture(scope="module")
def kinds(generate: Generate) -> Project:
    """Return a project with steps that share a model, one that calls another, and one that answers twice."""
    project = generate(
        project_name="kinds",
        max_batch_size=0,
        tensors=dict.fromkeys("ABCDE", "FP32[1]"),
        steps=[
            step("one", ["A"], ["B"], fuse=True),
            step("two", ["B"], ["C"], fuse=True),
            step("three", ["C"], ["D"], calls=["four"], fuse=False),
            step("four", {"x": OWN}, {"y": OWN}, fuse=False),
            step("five", ["D"], ["E"], decoupled=True, fuse=False),
        ],
    )
    for name, code in CODE.items():
        (project / f"steps/{name}.py").write_text(HEAD + code)
    (project / "samples").mkdir(exist_ok=True)
    (project / "samples/three.json").write_text(json.dumps({"inputs": {"A": [3.0]}}))
    (project / "own.json").write_text(json.dumps({"inputs": {"x": [5.0]}}))
    return project


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "returned"),
    [
        ("one", ["A float32[1]", "3.0", "returned:", "B float32[1]", "4.0"]),
        ("two", ["B float32[1]", "4.0", "returned:", "C float32[1]", "8.0"]),
        ("three", ["C float32[1]", "8.0", "returned:", "D float32[1]", "79.0"]),
        ("five", ["D float32[1]", "79.0", *FIVE]),
    ],
)
def test_steps_of_each_kind(kinds: Project, name: str, returned: list[str]) -> None:
    """They print what they read and return, also if they share a model."""
    lines = succeed(kinds.make("step", f"NAME={name}")).split("on sample three\n", 1)[1]
    assert [line.strip() for line in lines.splitlines()] == returned


def test_a_step_that_is_only_called_wants_a_request_of_its_own(kinds: Project) -> None:
    line = refused(kinds, "NAME=four")
    assert line == "step four: only other steps call it; write SAMPLE=file.json with x"
    printed = succeed(kinds.make("step", "NAME=four", "SAMPLE=own.json"))
    assert "y float32[1]\n    50.0\n" in printed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["within", "outside"])
def test_a_step_of_a_nested_ensemble(generate: Generate, name: str) -> None:
    project = generate(**UNUSUAL["nested ensemble, interfaces of its own"])
    assert "returned:" in succeed(project.make("step", f"NAME={name}"))


@pytest.mark.slow
def test_a_step_of_sequences(generate: Generate) -> None:
    """The rows of a sample are one: for the step, for models before it, and for those that it calls."""
    tensor = {"type": "FP32", "dims": [1]}
    sums: dict[str, Any] = {"sequence": {"direct": {}}}
    project = generate(
        tensors=dict.fromkeys("ABC", "FP32[1]"),
        steps=[
            step("first", ["A"], ["B"], **sums),
            step("last", ["B"], ["C"], calls=["called"]),
            step("called", {"x": tensor}, {"y": tensor}, **sums),
        ],
    )
    add_up = "class Step:\n  def __init__(self, context): self.calls = context.calls\n  def __call__(self, at, /, {0}):\n    self.sum = {0} + (0 if at.start else self.sum)\n    return {{'{1}': self.sum}}\n"
    (project / "steps/first.py").write_text(add_up.format("A", "B"))
    (project / "steps/called.py").write_text(add_up.format("x", "y"))
    code = add_up.replace("at, /, ", "").partition("    self.sum")[0]
    (project / "steps/last.py").write_text(
        code.format("B") + "    return {'C': self.calls.called(x=B)['y']}\n"
    )
    (project / "samples/rows.json").write_text('{"inputs": {"A": [[1], [10], [100]]}}')
    for name, rows in ("first", ["1.0", "11.0", "111.0"]), ("last", ["1.0", "12.0", "123.0"]):
        printed = succeed(project.make("step", f"NAME={name}", "SAMPLE=rows"))
        assert re.findall(r"[BC] float32\[1, 1\]\n +(\S+)", printed) == rows
