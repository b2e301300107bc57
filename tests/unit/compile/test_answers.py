"""Bad answers: one line that says where, what and what to write instead. Nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import copier
import pytest
import yaml
from answers_support import GOOD, STEPS, one, steps
from copier.errors import UserMessageError
from gatekeeper import Gatekeeper
from support import Generate, Project, problem, step

from triton_ensemble.change.apply import apply_first
from triton_ensemble.facts import catalog

FOUR = dict.fromkeys("ABCD", "FP32[1]")
BACKENDS = (
    "python, onnxruntime, pytorch, openvino, tensorrt, tensorflow, fil, dali, vllm, tensorrtllm, "
    "identity, auto, ensemble"
)
TYPES = (
    "BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, FP32, FP64, BF16, STRING"
)


def tensor(value: Any) -> dict[str, Any]:
    return {"tensors": {"A": value, "B": "FP32[4]"}}


def engine(shapes: dict[str, Any]) -> dict[str, Any]:
    """Return a step of TensorRT with dims that vary, and the shapes that its engine is built for."""
    inputs = {"x": {"tensor": "A", "dims": [-1, 4]}}
    return one(inputs, {"y": "B"}, backend="tensorrt", trtexec={"shapes": shapes}) | {
        "tensors": {"A": "FP32[-1, 4]", "B": "FP32[4]"},
        "gpu_count": 1,
    }


# Each answers, in place of GOOD's: the line.
BAD: list[tuple[dict[str, Any], str]] = [
    # numbers
    ({"max_batch_size": -1}, "max_batch_size is -1; write a whole number, 0 or more"),
    ({"max_batch_size": "many"}, 'max_batch_size is "many"; write a whole number, 0 or more'),
    ({"max_batch_size": True}, "max_batch_size is true; write a whole number, 0 or more"),
    ({"max_batch_size": 2.5}, "max_batch_size is 2.5; write a whole number, 0 or more"),
    ({"max_batch_size": [8]}, "max_batch_size is [8]; write a whole number, 0 or more"),
    ({"max_batch_size": 2**31}, "max_batch_size is 2147483648; write 2147483647 or less"),
    ({"extras": "monitoring"}, 'extras is "monitoring"; write a list'),
    (
        {"extras": ["monitorin"]},
        'extras 1 is "monitorin"; did you mean monitoring?',
    ),
    ({"ci": "travis"}, 'ci is "travis"; write one of github, gitlab, none'),
    ({"ci": "gitub"}, 'ci is "gitub"; did you mean github?'),
    (
        {"gpu_runner": "self-hosted; gpu"},
        'gpu_runner is "self-hosted; gpu"; write labels, like self-hosted, gpu',
    ),
    ({"gpu_runner": ["gpu"]}, 'gpu_runner is ["gpu"]; write labels, like self-hosted, gpu'),
    ({"gpu_count": -1}, "gpu_count is -1; write a whole number, 0 or more"),
    ({"max_queue_delay_us": -1}, "max_queue_delay_us is -1; write a whole number, 0 or more"),
    # names and choices
    (
        {"project_name": "a b"},
        'project_name is "a b"; write a project name of letters, digits, `_`, `-` and `.`',
    ),
    (
        {"ensemble_name": "a/b"},
        'ensemble_name is "a/b"; write a name of letters, digits, `_`, `-` and `.`',
    ),
    (
        {"starting_pipeline": "x"},
        f'starting_pipeline is "x"; write one of {", ".join(catalog.table("examples"))}',
    ),
    ({"triton_release": "26.99"}, "triton_release is 26.99; write one from 24.10 to 26.11"),
    ({"stepz": []}, "stepz: is not a question; did you mean steps?"),
    ({"colour": "red"}, "colour: is not a question; drop it"),
    # the table of tensors
    ({"tensors": ["A"]}, "tensors: is not a mapping; write `NAME: TYPE[dims]` for each tensor"),
    ({"tensors": {}}, "tensors: is not a mapping; write `NAME: TYPE[dims]` for each tensor"),
    ({"tensors": {"": "FP32[1]"}}, 'tensor "": has no name; write one, in quotes'),
    ({"tensors": {True: "FP32[1]"}}, "tensor true: has no name; write one, in quotes"),
    ({"tensors": {1: "FP32[1]", "1": "FP32[1]"}}, "tensor 1: is written twice; drop one"),
    (tensor("FP32"), 'tensor A: is "FP32"; write TYPE[dims], like FP32[3, 224, 224]'),
    (tensor("FP32[]"), 'tensor A: is "FP32[]"; write TYPE[dims], like FP32[3, 224, 224]'),
    (
        tensor("FP32[012]"),
        'tensor A: is "FP32[012]"; write TYPE[dims], like FP32[3, 224, 224]',
    ),
    (tensor(4), "tensor A: is 4; write TYPE[dims], like FP32[3, 224, 224]"),
    (tensor("FLOAT[4]"), "tensor A: has the type FLOAT; write FP32"),
    (tensor("fp32[4]"), "tensor A: has the type fp32; write FP32"),
    (
        tensor("TYPE_FP32[4]"),
        "tensor A: has the type TYPE_FP32; write FP32",
    ),
    (
        tensor("UINT9[4]"),
        "tensor A: has the type UINT9; did you mean UINT8?",
    ),
    (
        tensor("COMPLEX[4]"),
        f"tensor A: has the type COMPLEX; write one of {TYPES}",
    ),
    (tensor("FP32[0]"), "tensor A: has the dim 0; write 1 or more, or -1 where it varies"),
    (tensor("FP32[3, -2]"), "tensor A: has the dim -2; write 1 or more, or -1 where it varies"),
    (
        tensor({"type": "FP32", "dims": [2.5]}),
        "tensor A: has the dim 2.5; write 1 or more, or -1 where it varies",
    ),
    (
        tensor({"type": "FP32", "dims": [True]}),
        "tensor A: has the dim true; write 1 or more, or -1 where it varies",
    ),
    (
        tensor({"type": "FP32", "dims": 4}),
        "tensor A: needs its dims, a list like [3, 224, 224]; a single value is [1]",
    ),
    (tensor({"type": "FP32"}), "tensor A: needs its `dims`"),
    (tensor({"dims": [4]}), "tensor A: needs its `type`"),
    (
        tensor({"type": "FP32", "dims": [4], "dim": [4]}),
        "tensor A: has the field `dim`, which is unknown; did you mean dims?",
    ),
    (
        tensor(f"FP32[{'1, ' * 32}4]"),
        "tensor A: has 33 dims; write 31 or less",
    ),
    (
        {"tensors": {"a\x85b": "FP32[1]"}},
        "tensor a\x85b: has a control character in its name, like a line break, or more than 1000 characters; drop it",
    ),
    (
        {"tensors": {"a\u2028b": "FP32[1]"}},
        "tensor a\u2028b: has a control character in its name, like a line break, or more than 1000 characters; drop it",
    ),
    (
        one({"a": "A", "\u2029": "A"}),
        'step one: has a tensor named "\\u2029"; write a name',
    ),
    # the list of steps
    ({"steps": "one"}, "steps: is not a list; write one `- name: ...` for each step"),
    ({"steps": {"one": {}}}, "steps: is not a list; write one `- name: ...` for each step"),
    ({"steps": []}, "steps: is not a list; write one `- name: ...` for each step"),
    (
        {"steps": ["one"]},
        'step 1: is "one"; write `name:`, `backend:`, `inputs:` and `outputs:`',
    ),
    ({"steps": [{"backend": "python"}]}, "step 1: needs its `name`"),
    ({"steps": [{"name": "one", "backend": "python"}]}, "step one: needs its `inputs`"),
    (
        {"steps": [step("a/b", ["A"], ["B"])]},
        'step a/b: name is "a/b"; write a name of letters, digits, `_`, `-` and `.`',
    ),
    (
        {"steps": [step("it's", ["A"], ["B"])]},
        "step it's: name is \"it's\"; write a name of letters, digits, `_`, `-` and `.`",
    ),
    (
        {"steps": [step("__pycache__", ["A"], ["B"])]},
        'step __pycache__: name is "__pycache__", which is left out of copies, as what Python compiles; write another name',
    ),
    (
        {"ensemble_name": "e.pyc"},
        'ensemble_name is "e.pyc", which is left out of copies, as what Python compiles; write another name',
    ),
    (
        {"project_name": "__pycache__"},
        'project_name is "__pycache__", which is left out of copies, as what Python compiles; write another name',
    ),
    (
        one(versions="latest"),
        'step one: versions is "latest"; write {latest: 2}, `all` or a list of versions',
    ),
    (one(warmup=[]), "step one: warmup is []; write a list that is not empty, or drop it"),
    (
        one(device="z" * 5000),
        f'step one: device is "{"z" * 279} ... {"z" * 213}"; write one of cpu, gpu, auto, model',
    ),
    (one(backend="z" * 101), f'step one: backend is "{"z" * 101}"; write one of {BACKENDS}'),
    ({"steps": STEPS * 2}, "step one: is written twice; give one of them another name"),
    (one(backend="onnx"), 'step one: backend is "onnx"; did you mean onnxruntime?'),
    (one(backend="pytorhc"), 'step one: backend is "pytorhc"; did you mean pytorch?'),
    (one(backend="tensorrt_llm"), 'step one: backend is "tensorrt_llm"; did you mean tensorrtllm?'),
    (one(backend="Python"), 'step one: backend is "Python"; did you mean python?'),
    (
        one(backend="tensorrt", trtexec=False),
        "step one: trtexec is false; write true, or {shapes: ..., flags: [...]}",
    ),
    (
        one(backend="tensorrt", trtexec={"flags": ["--onnx=x"]}),
        'step one: trtexec flags 1 is "--onnx=x"; write a flag of trtexec, like --fp16; its files, shapes and '
        "device are given to it",
    ),
    (
        engine({"x": {"min": [1], "opt": [1]}}),
        "step one: trtexec shapes x needs its `max`",
    ),
    (one(backend="vlm"), 'step one: backend is "vlm"; did you mean vllm?'),
    (one(backend=None), f"step one: backend is null; write one of {BACKENDS}"),
    (
        one(instanecs=2),
        "step one: has the field `instanecs`, which is unknown; did you mean instances?",
    ),
    (one(colour=2), "step one: has the field `colour`, which is unknown"),
    (one(instances=0), "step one: instances is 0; write a whole number, 1 or more"),
    (
        one(max_batch_size="x"),
        'step one: max_batch_size is "x"; write a whole number, 0 or more',
    ),
    (one(parameters=["a"]), "step one: parameters is not a mapping; write `name: value` pairs"),
    (
        one(requirements=[3]),
        'step one: requirements has 3; write packages, like "pillow>=10.1"',
    ),
    (one(requirements=3), "step one: requirements is 3; write a list of names"),
    (
        one(requirements=[1.5]),
        'step one: requirements has 1.5; write packages, like "pillow>=10.1"',
    ),
    (one(requirements="numpy"), 'step one: requirements is "numpy"; write a list of names'),
    (
        {"ensemble_name": "one"},
        "step one: has the name of another model or of the ensemble; rename one",
    ),
    # what a step reads and writes
    (
        one([]),
        "step one: must list the tensors it reads in `inputs` and those it writes in `outputs`",
    ),
    (
        one("A"),
        "step one: must list the tensors it reads in `inputs` and those it writes in `outputs`",
    ),
    (
        one([["A"]]),
        'step one: lists ["A"] among its tensors; write a name, or make the list a mapping',
    ),
    (
        one([""]),
        'step one: lists "" among its tensors; write a name, or make the list a mapping',
    ),
    (one({"": "A"}), 'step one: has a tensor named ""; write a name, in quotes'),
    (one(["A", "A"]), "step one: A is written twice; drop one"),
    (one({"x": None}), "step one: x is not a tensor; write the name of one"),
    (one({"x": {}}), "step one: x needs a `tensor`, or its `type` and `dims`"),
    (
        one({"x": {"tensor": "A", "dim": [4]}}),
        "step one: x has the field `dim`, which is unknown; did you mean dims?",
    ),
    (
        one({"a": "A", "x": {"type": "FP32", "dims": [4]}}),
        "step one: x is not fed; give x a `tensor`, or make it `optional: true`",
    ),
    (
        one({"x": {"tensor": "A", "dims": [5]}}),
        "step one: reads A as FP32[5], but the ensemble has FP32[4]; make them the same, or -1 where a dim varies",
    ),
    (
        one({"x": {"tensor": "A", "type": "INT64"}}),
        "step one: reads A as INT64[4], but the ensemble has FP32[4]; make them the same, or -1 where a dim varies",
    ),
    (
        one(["A"], {"x": {"type": "FP32", "dims": [1]}}),
        "step one: writes no tensor of the pipeline; map one of its `outputs` to a tensor",
    ),
    # the wiring
    (
        steps(step("one", ["IMAGES"], ["B"]), IMAGE="FP32[4]"),
        "step one: reads IMAGES, which is not in `tensors`; did you mean IMAGE?",
    ),
    (
        steps(step("one", ["A", "OTHER"], ["B"])),
        "step one: reads OTHER, which is not in `tensors`; add it there with its TYPE[dims]",
    ),
    (
        steps(step("one", ["A"], ["B"]), step("two", ["A"], ["B"])),
        "step two: writes B, which step one writes too; rename one B",
    ),
    (
        steps(step("one", ["A"], {"x": "B", "y": "B"})),
        "step one: writes B, which step one writes too; rename one B",
    ),
    (
        steps(step("one", ["A"], ["A"])),
        "step one: reads A, which it writes itself; let it read something else",
    ),
    (
        {
            "tensors": FOUR,
            "steps": [step("one", ["A", "C"], ["B"]), step("two", ["B"], ["C", "D"])],
        },
        "step one: reads C of step two, which reads from one itself; let one read something else",
    ),
    (
        steps(step("one", ["A"], ["B"]), step("two", ["B"], ["A"])),
        "step one: reads A of step two, which reads from one itself; let one read something else",
    ),
    (
        {
            "tensors": FOUR,
            "steps": [
                step("one", ["C"], ["D"]),
                step("two", ["A"], ["B"]),
                step("six", ["B"], ["C"]),
            ],
        },
        "step one: reads C, which step six writes below; list six before one, or let it read something else",
    ),
    (
        {"tensors": FOUR, "steps": [step("one", ["A"], ["B"]), step("two", ["C"], ["D"])]},
        "outputs: B needs only some of the inputs, and Triton deadlocks; write `ensemble: {all_outputs: true}`",
    ),
    # what the ensemble returns
    ({"outputs": "B"}, 'outputs is "B"; write a list of names'),
    ({"outputs": ["B", "B"]}, "outputs B is written twice; drop one"),
    ({"outputs": ["A"]}, "outputs: no step writes A; add it to the `outputs` of a step"),
    (
        {"outputs": ["OTHER"]},
        "outputs: OTHER is not in `tensors`; add it there with its TYPE[dims]",
    ),
    (
        {**steps(step("one", ["A"], ["B", "C"]), C="FP32[1]"), "outputs": ["B"]},
        "step one: writes C, which nothing reads; add C to `outputs`, "
        "or write its {type: ..., dims: ...} in its place",
    ),
]

# What is wrong only as a value: its text is the right answer, or no other than the text itself.
BAD_VALUES: list[tuple[dict[str, Any], str]] = [
    ({"ensemble_name": "e" * 101}, "ensemble_name has 101 characters; write 100 or less"),
    (
        one(requirements=["a b; c"]),
        'step one: requirements has "a b; c"; write packages, like "pillow>=10.1"',
    ),
    (
        {"triton_release": 26.07},
        'triton_release is the number 26.07; write it in quotes, like "26.11"',
    ),
    (
        {"project_name": 3},
        "project_name is 3; write a project name of letters, digits, `_`, `-` and `.`",
    ),
    (
        {"ensemble_name": ["x"]},
        'ensemble_name is ["x"]; write a name of letters, digits, `_`, `-` and `.`',
    ),
    ({"max_batch_size": None}, "max_batch_size: is empty; write a value, or leave it out"),
    ({"triton_release": None}, "triton_release: is empty; write a value, or leave it out"),
    ({"steps": None}, "steps: is empty; write a value, or leave it out"),
]

# What is wrong as text, in the way YAML or Python would read it.
BAD_TEXTS: list[tuple[dict[str, Any], str]] = [
    ({"max_batch_size": "-1"}, "max_batch_size is -1; write a whole number, 0 or more"),
    ({"max_batch_size": "true"}, 'max_batch_size is "true"; write a whole number, 0 or more'),
    ({"gpu_count": "two"}, 'gpu_count is "two"; write a whole number, 0 or more'),
    ({"steps": "[a: {"}, "steps: is not YAML; check its brackets, quotes and indentation"),
    (
        {"tensors": "{A: FP32[4]}"},
        "tensors: is not YAML; check its brackets, quotes and indentation",
    ),
    ({"max_batch_size": "0x10"}, 'max_batch_size is "0x10"; write a whole number, 0 or more'),
    ({"max_batch_size": "1_0"}, 'max_batch_size is "1_0"; write a whole number, 0 or more'),
    ({"max_batch_size": "2.0"}, 'max_batch_size is "2.0"; write a whole number, 0 or more'),
    ({"max_batch_size": "[1"}, 'max_batch_size is "[1"; write a whole number, 0 or more'),
    ({"max_batch_size": ""}, 'max_batch_size is ""; write a whole number, 0 or more'),
]


def table(rows: list[tuple[dict[str, Any], str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("answers", "line"), [pytest.param(*row, id=row[1]) for row in rows]
    )


def refusal(template: Path, folder: Path, answers: dict[str, Any]) -> str:
    with pytest.raises(UserMessageError) as caught:
        copier.run_copy(str(template), folder, data=answers, defaults=True, quiet=True)
    assert not folder.exists()
    return problem(caught.value)


@table(BAD + BAD_VALUES)
def test_bad_answer(template: Path, tmp_path: Path, answers: dict[str, Any], line: str) -> None:
    assert refusal(template, tmp_path / "p", GOOD | answers) == line


def test_what_only_a_file_can_say_is_refused_by_the_first_command(
    template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Copier makes the project, whatever of it is wrong, and writes nowhere else."""
    project = tmp_path / "p"
    answers = GOOD | one(max_batch_size=4)
    copier.run_copy(str(template), project, data=answers, defaults=True, quiet=True)
    for _ in range(2):
        assert apply_first(project) == 1
        said = capsys.readouterr().err.splitlines()
        assert " step one: takes 4 rows at most, the ensemble 8; raise " in said[0]
        assert said[1:] == ["pipeline.yml: is refused; correct it first"]


# Lists and mappings are checked alike once they are read: some stand for all.
SOME = [
    (answers, line) for answers, line in BAD if {"tensors", "steps", "outputs"} & answers.keys()
]


@pytest.mark.parametrize(
    "backend", ["tensorrt_rtx", "pytorch2", "vllm2", "python_vision", "my_own", "openvino_2024"]
)
def test_a_backend_of_ones_own(template: Path, backend: str) -> None:
    assert Gatekeeper(template).line(GOOD | {"max_batch_size": 8} | one(backend=backend)) == ""


def format_text(answers: dict[str, Any]) -> dict[str, str]:
    """Return the answers as `--data NAME=TEXT` brings them."""
    return {
        name: value if isinstance(value, str) else yaml.safe_dump(value, sort_keys=False)
        for name, value in answers.items()
    }


@table(SOME[::4] + BAD_TEXTS)
def test_bad_answer_as_text(
    template: Path, tmp_path: Path, answers: dict[str, Any], line: str
) -> None:
    assert refusal(template, tmp_path / "p", format_text(GOOD | answers)) == line


def test_good_answers_are_taken_as_values_and_as_text(generate: Generate) -> None:
    values = generate(**GOOD, max_batch_size=4, extras=["kubernetes"])
    texts = generate(**format_text(GOOD), max_batch_size="4", extras="[kubernetes]")
    assert values.contents() == texts.contents()


def test_an_example_refuses_what_its_code_cannot_do(generate: Generate) -> None:
    with pytest.raises(UserMessageError) as caught:
        generate(max_batch_size=0)
    line = "max_batch_size: the steps of image-classification take batches; write 1 or more"
    assert problem(caught.value) == line


def test_saved_answers_stop_an_update_before_it_touches_a_file(
    git_template: Path, tmp_path: Path
) -> None:
    """They are refused as given ones are: one stands for all that `test_bad_answer` has."""
    answers = one(backend="onnx")
    line = 'step one: backend is "onnx"; did you mean onnxruntime?'
    copier.run_copy(str(git_template), tmp_path, data=GOOD, defaults=True, quiet=True)
    project = Project(tmp_path)
    saved = project / ".copier-answers.yml"
    saved.write_text(yaml.safe_dump(yaml.safe_load(saved.read_text()) | answers))
    project.commit()
    before = project.contents()
    with pytest.raises(UserMessageError) as caught:
        copier.run_update(str(tmp_path), defaults=True, quiet=True, overwrite=True)
    assert problem(caught.value) == line
    assert project.contents() == before
    assert not project.changes()


def test_saved_answers_that_are_no_yaml_stop_an_update(git_template: Path, tmp_path: Path) -> None:
    copier.run_copy(str(git_template), tmp_path, data=GOOD, defaults=True, quiet=True)
    project = Project(tmp_path)
    (project / ".copier-answers.yml").write_text("steps: [a: {\n")
    project.commit()
    before = project.contents()
    with pytest.raises(yaml.YAMLError):
        copier.run_update(str(tmp_path), defaults=True, quiet=True, overwrite=True)
    assert project.contents() == before
    assert not project.changes()
