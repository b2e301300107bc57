"""The problems of answers, as records: the rule, the place and the arguments of the words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from answers_support import GOOD, one
from support import ROOT, step

from triton_ensemble.check.formats import format_text
from triton_ensemble.check.pipeline import check
from triton_ensemble.check.pipeline.check import check_pipeline
from triton_ensemble.check.pipeline.lines import PipelineLines
from triton_ensemble.check.pipeline.problems import list_problems
from triton_ensemble.cli import main
from triton_ensemble.compile.rules import Mistake, rules
from triton_ensemble.facts import catalog
from triton_ensemble.facts.answers import Answers

Record = tuple[str, list[str | int], Answers]
ONE = ["steps", "one"]
TABLES = {"choices", "types", "write"}  # arguments that repeat a table


def records(given: Answers) -> list[Record]:
    """Return the problems of answers, without the arguments that repeat a table."""
    return [record(each) for each in list_problems(GOOD | given, rules())]


def record(problem: Mistake) -> Record:
    args = problem.args.items()
    return problem.rule, problem.where, {name: arg for name, arg in args if name not in TABLES}


def steps(*given: dict[str, Any], **tensors: Any) -> Answers:
    named = {name: tensors.get(name, "FP32[4]") for name in ("A", "B", "C", *tensors)}
    return {"tensors": named, "steps": list(given)}


def inner(*given: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return an ensemble of steps that reads A and writes B."""
    tensors = {"A": "FP32[4]", "B": "FP32[4]", "C": "FP32[4]"}
    return step("inner", ["A"], ["B"], "ensemble", tensors=tensors, steps=list(given), **more)


ONE_READS_A = step("one", ["A"], ["B"])
CASES: dict[str, tuple[Answers, list[Record]]] = {
    "nothing": (steps(ONE_READS_A, step("two", ["B"], ["C"])), []),
    "a number": (
        {"gpu_count": -1, "ci": "gitub"},
        [
            ("form", ["gpu_count"], {"kind": "natural", "json": "-1"}),
            ("choice", ["ci"], {"given": '"gitub"'}),
        ],
    ),
    "no question": (
        {"stepz": 1, "ci": None},
        [
            ("no-question", ["stepz"], {"key": "stepz"}),
            ("empty", ["ci"], {"field": "ci"}),
        ],
    ),
    "an item of a list in a field": (
        steps(
            step("one", ["A"], ["B"], batching={"preferred_batch_size": [4, 0]}, gpus=["x"]),
            step("two", ["B"], ["C"]),
        ),
        [
            ("form", [*ONE, "batching", "preferred_batch_size", 1], {"kind": "batch size", "json": "0"}),
            ("form", [*ONE, "gpus", 0], {"kind": "listed natural", "json": '"x"'}),
        ],
    ),
    "a step that needs one without its form": (
        steps(
            step("one", ["A"], ["B"], "onnx"),
            {"name": "again", "model": "one", "inputs": ["A"], "outputs": ["C"], "version": 7},
            step("caller", ["A"], ["C"], calls=["one"]),
        ),
        [("choice", [*ONE, "backend"], {"given": '"onnx"'})],
    ),
    "a name that is written twice": (
        steps(ONE_READS_A, step("one", ["B"], ["C"])),
        [("twice", ["steps", 1], {})],
    ),
    "tensors, and steps that read them": (
        steps(step("one", ["A"], ["B"]), step("two", ["B"], ["C"]), A="FP33[4]", B={"type": "FP32"}, D="FP32[0]"),
        [
            ("data-type", ["tensors", "A"], {"given": "FP33"}),
            ("needs", ["tensors", "B"], {"field": "dims"}),
            ("form", ["tensors", "D", 0], {"kind": "dim", "raw": "0"}),
        ],
    ),
    "a key without its form, and the item of another": (
        {"tensors": {"": "FP32[4]", "A": "FP33[4]", "B": "FP32[4]"}},
        [
            ("form", ["tensors", ""], {"kind": "new tensor", "json": '""'}),
            ("data-type", ["tensors", "A"], {"given": "FP33"}),
        ],
    ),
    "an output that is none, and a tensor that is none in an ensemble inside": (
        {**steps(inner(step("one", ["X"], ["B"])), step("out", ["B"], ["C"])), "outputs": ["Z"]},
        [
            ("output-unknown", ["outputs", "Z"], {"name": "Z"}),
            ("no-tensor", ["steps", "inner", "steps", "one", "inputs", "X"], {"verb": "reads", "tensor": "X"}),
        ],
    ),
    "a model that is not a step's": (
        steps(
            step("one", ["A"], ["B"], calls=["two"]),
            {"name": "two", "model": "none", "inputs": ["A"], "outputs": ["C"]},
            C="FP32[-1]",
        ),
        [("no-model", ["steps", "two", "model"], {"model": "none"})],
    ),
    "one of many readers that takes another shape": (
        steps(
            step("one", ["A"], ["B"]),
            step("two", {"A": {"tensor": "A", "dims": [5]}}, ["C"]),
            step("three", ["A"], ["D"]),
            D="FP32[4]",
        ),
        [("spec", ["steps", "two", "inputs", "A"], {
            "verb": "reads", "tensor": "A", "own": "FP32[5]",
            "who": "the ensemble has", "other": "FP32[4]",
        })],
    ),
    "a tensor that is none, of a model that serves two steps": (
        steps(
            step("one", ["none"], ["B"]),
            {"name": "two", "model": "one", "inputs": {"none": "A"}, "outputs": {"B": "C"}},
        ),
        [("no-tensor", [*ONE, "inputs", "none"], {"verb": "reads", "tensor": "none"})],
    ),
    "steps inside": (
        steps(inner(ONE_READS_A, step("two", ["X"], ["C"])), step("out", ["B"], ["Y"])),
        [
            ("no-tensor", ["steps", "out", "outputs", "Y"], {"verb": "writes", "tensor": "Y"}),
            ("no-tensor", ["steps", "inner", *["steps", "two"], "inputs", "X"], {"verb": "reads", "tensor": "X"}),
        ],
    ),
    "the form of a step inside": (
        steps(inner(step("one", ["A"], ["B"], device="tpu")), step("out", ["A"], ["C"], device="gpu")),
        [
            ("choice", ["steps", "inner", *ONE, "device"], {"given": '"tpu"'}),
            ("no-gpu", ["steps", "out", "device"], {}),
        ],
    ),
    "the text of a pipeline": (
        {"flow": "one python: A FP32[1] -> B\ntwo pythom: B -> C FP32[1]"},
        [("flow-and-steps", ["flow"], {})],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_records_of_answers(name: str) -> None:
    given, expected = CASES[name]
    assert records(given) == expected


def test_each_rule_that_stays_on_answers_has_its_reason() -> None:
    code = "".join(path.read_text() for path in Path(check.__file__).parent.glob("rules/*.py"))
    words = set(re.findall(r'"([a-z]+(?:-[a-z]+)*)"', code)) & catalog.table("problems").keys()
    page = (ROOT / "docs/decisions/jinja.md").read_text().partition("| Reason ")[2]
    listed = set(re.findall("`([a-z-]+)`", page))
    assert words == listed, "change the table in docs/decisions/jinja.md"


def test_the_records_of_a_text() -> None:
    text = "one python: A FP32[1] -> B FP32[1]\ntwo pythom: B -> C FP33[1]\n"
    found = list_problems({"starting_pipeline": "my-own", "flow": text}, rules())
    assert [(each.rule, each.where, each.near) for each in found] == [
        ("data-type", ["flow", 2], "FP32"),
        ("choice", ["flow", 2], "python"),
    ]


SPACES = """\
project_name: x
starting_pipeline: my-own
tensors:
  Use: FP32[4]
  {name}: FLOAT[4]
  B: FP32[4]
  C: FP32[4]
steps:
- {{name: one, backend: python, inputs: [Use], outputs: [B], batching: {{preferred_batch_size: [99]}}}}
- {{name: two, backend: python, inputs: [{name}], outputs: [C]}}
"""


@pytest.mark.parametrize("name", ["Use Chip", "UseChip", "steps", "tensor Use", "B C", "389"])
def test_a_name_that_begins_as_another_or_has_a_blank(name: str, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yml"
    path.write_text(SPACES.format(name=name))
    assert [(each.line, each.what) for each in check_pipeline(path)] == [
        (5, f"tensor {name}: has the type FLOAT"),
        (
            9,
            "step one: batching.preferred_batch_size: dynamic batching preferred size "
            "must be <= max batch size for one",
        ),
    ]


FILE = """\
tensors:
  A: FP32[4]
  Merchant Name: {type: FP32,
    dims: [4]}
steps:
  - name: one
    inputs: [A, Merchant Name]
    outputs:
      y: B
      A: {tensor: C, dims: [1]}
  - name: one more
    gpus: [0,
      1]
    steps:
    - {name: one,
       version: 3}
    config: |
      name: "x"
"""


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ([], 1),
        (["tensors", "Merchant Name", "dims", 0], 4),
        (["tensors", "Merchant"], 1),
        (["steps", "one", "inputs", "Merchant Name"], 7),
        (["steps", "one", "outputs", "A"], 10),
        (["steps", "one", "outputs", "B"], 9),
        (["steps", "one", "outputs", "C"], 10),
        (["steps", "one more", "gpus", 1], 13),
        (["steps", "one more", "gpus", 7], 12),
        (["steps", "one more", "steps", "one", "version"], 16),
        (["steps", 1, "steps", 0, "versions"], 15),
        (["steps", "none"], 5),
        (["outputs", "A"], 2),
        (["max_batch_size"], 1),
    ],
)
def test_the_line_of_a_place(where: list[str | int], line: int) -> None:
    assert PipelineLines(yaml.compose(FILE)).find_line(where) == line


def test_the_line_of_what_is_merged_and_of_what_yaml_reads_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yml"
    path.write_text("""\
tensors:
  A: FP32[4]
  1_000: FLOAT[4]
  B: FP32[4]
  C: FP32[4]
steps:
- &one {name: one, backend: python, inputs: [A], outputs: [B], parameters: {~: x}}
- <<: *one
  name: two
  device: gpu
  parameters: {y: z}
  outputs: [C]
""")
    assert [(each.line, each.what.partition(":")[0]) for each in check_pipeline(path)] == [
        (3, "tensor 1000"),
        (7, "step one"),
        (10, "step two"),
    ]


def test_the_line_of_a_text(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yml"
    path.write_text("""\
flow: |

  one python: A FP32[1] -> B FP32[1]
  two pythom: B -> C FP32[1]
""")
    assert [(each.line, each.what.partition(": ")[2][:6]) for each in check_pipeline(path)] == [
        (4, "line 3")
    ]


def test_a_merged_key_does_not_stand_twice(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yml"
    path.write_text("""\
ensemble: {parameters: &deep {<<: {x: 1}, x: 2}}
_shallow: {<<: *deep}
tensors: {A: "FP32[4]", B: "FP32[4]"}
steps: [{name: one, backend: python, inputs: [A], outputs: [B]}]
""")
    assert check_pipeline(path) == []


def test_a_problem_of_an_answer_that_only_the_project_has(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yml"
    path.write_text(SPACES.format(name="D").replace("FLOAT", "FP32").replace("99", "8"))
    kept = {"ci": "gitub", "steps": [step("one", ["A"], ["B"])]}
    (tmp_path / ".copier-answers.yml").write_text(yaml.safe_dump(kept))
    [found] = check_pipeline(path)
    assert (found.line, found.what, found.instead) == (1, 'ci is "gitub"', "did you mean github?")


def test_make_check_refuses_what_only_a_file_can_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = steps(step("one", ["A"], ["B"], calls=["nobody"]), step("two", ["B"], ["C"]))
    (tmp_path / "pipeline.yml").write_text(yaml.safe_dump(given))
    (tmp_path / ".copier-answers.yml").write_text(yaml.safe_dump({**given, "owned": []}))
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "project.json").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["repository", "--if-applied"]) == 1
    assert (
        "step one: calls nobody, which is not a step; drop it from `calls`\n"
        in capsys.readouterr().err
    )


def test_a_check_of_the_repository_asks_what_only_a_file_can_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = steps(step("one", ["A"], ["B"], calls=["nobody"]), step("two", ["B"], ["C"]))
    for name in ("pipeline.yml", ".copier-answers.yml"):
        (tmp_path / name).write_text(yaml.safe_dump(given))
    model = tmp_path / "model_repository" / "one"
    model.mkdir(parents=True)
    (model / "config.pbtxt").write_text('backend: "python"\n')
    monkeypatch.chdir(tmp_path)
    assert main(["check"]) == 1
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("pipeline.yml:4: error: answers: step one: calls nobody, ")


def test_words_come_last_and_once() -> None:
    """Words with blanks, quotes or `; ` in them are part of what is wrong, and not of the remedy."""
    given = steps(step("one", ["A"], ["B; did you mean C?"]), step("two", ["B"], ["C"]))
    first, *_ = list_problems(GOOD | given, rules())
    assert rules().format_problem(first) == (
        "step one: writes B; did you mean C?, which is not in `tensors`",
        "add it there with its TYPE[dims]",
    )


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            steps(ONE_READS_A, A={"type": None, "dims": [4]}),
            "tensor A: has the type null",
        ),
        (
            steps(ONE_READS_A, A={"type": "", "dims": [4]}),
            'tensor A: has the type ""',
        ),
        (
            steps(ONE_READS_A, A={"type": "FP32", "dims": [None]}),
            "tensor A: has the dim null; write 1 or more",
        ),
        (
            steps(ONE_READS_A | {"batching": {True: 1}}),
            "step one: batching has the field `true`, which is unknown",
        ),
    ],
)
def test_what_is_no_text_in_words(given: Answers, line: str) -> None:
    """As YAML has it, and not as Python does."""
    assert rules().problem(GOOD | given).startswith(line)


@pytest.mark.parametrize(
    ("field", "write"),
    [
        ("warmup", "a list that is not empty, or drop it"),
        ("batching", "false, true or its settings"),
        ("sequence", "a mapping, like {direct: {}}"),
    ],
)
def test_an_empty_list_in_words(field: str, write: str) -> None:
    given = steps(ONE_READS_A | {field: []})
    assert rules().problem(GOOD | given) == f"step one: {field} is []; write {write}"


@pytest.mark.parametrize(
    "given",
    [
        steps(ONE_READS_A | {"colour": 2}),
        {
            "starting_pipeline": "my-own",
            "flow": "one python: A FP32[1] -> B FP32[1]\ntwo python: C -> D FP32[1]\n",
        },
    ],
)
def test_the_check_says_a_problem_as_copier_does(given: Answers, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yml"
    path.write_text(yaml.safe_dump(given))
    assert [format_text([each]).partition(" answers: ")[2] for each in check_pipeline(path)][
        :1
    ] == [rules().problem(given)]


ZEROS = "0" * 64
REQUIREMENTS = {
    "pillow>=10.1": True,
    "a[b, c] ==1.0, !=1.1 ; python_version > '3'": True,
    f"a @ https://example.com/a-1.0.tar.gz#sha256={ZEROS} ; sys_platform == 'linux'": True,
    f"a @ git+https://example.com/a.git@{ZEROS[:40]}": True,
    "a @ file://${PROJECT_ROOT}/wheels/a-1.0-py3-none-any.whl": True,
    "a @ file://${PROJECT_ROOT}/wheels/../../a.whl": False,
    "a @ file:///tmp/a": False,
    "a @ /tmp/a.whl": False,
    "a @ https://example.com/a.whl": False,
    f"a @ http://example.com/a.whl#sha256={ZEROS}": False,
    f"a @ https://example.com/a.whl#sha256={ZEROS} --pre": False,
    "a @ git+https://example.com/a@main": False,
    f"a @ git+ssh://example.com/a@{ZEROS[:40]}": False,
    "https://example.com/a.whl": False,
    "--index-url=https://example.com": False,
    "a ; x\u0085y": False,
    "backports.tarfile ~= 1.2, != 1.3; (python_version in '3.10, 3.11') or os_name == \"nt\"": True,
    f"a @ git+https://example.com:65535/a.git@{ZEROS[:40]}": True,
    "triton-ensemble-more": True,
    **dict.fromkeys(
        [
            *(
                "evil.tar.gz",
                "evil.zip",
                "x.whl",
                "evil.tar.bz2",
                "evil.tar.bz2[a]; os_name == 'nt'",
            ),
            *(
                "evil.ZIP",
                "evil.tgz",
                "evil.tar.zst",
                "evil.egg",
                "evil.tar",
                "triton_Ensemble >=1",
            ),
            *(
                "evil;touch x",
                "evil===a;b",
                "a; sys_platform",
                "a; x == 'y'",
                "a; os_name == 'nt' and ",
            ),
            *(
                f"a @ https://{host}/a.whl#sha256={ZEROS}"
                for host in ("", "h:65536", "u:p@h", "-o")
            ),
            f"a @ https://h/a.whl@{ZEROS[:40]}",
            f"a @ https://h/a.whl#sha256=1#sha256={ZEROS}",
            *(f"a @ git+https://{host}/a@{ZEROS[:40]}" for host in ("-oProxy", "token@h", "h#/")),
        ],
        False,
    ),
}


@pytest.mark.parametrize(("requirement", "is_good"), REQUIREMENTS.items())
def test_a_requirement_says_what_is_installed(requirement: str, is_good: bool) -> None:
    line = f"step one: requirements has {json.dumps(requirement)}; write packages, "
    problem = rules().problem(GOOD | one(requirements=[requirement]))
    assert problem.startswith(line) != is_good, problem


def test_too_many_are_refused_at_once() -> None:
    """Each of more would take as long as all before it."""
    tensors = {f"T{i}": "FP32[4]" for i in range(5001)}
    assert "has 5001 tensors; write 5000 or less" in rules().problem(GOOD | {"tensors": tensors})
    assert "has 1001 steps; write 1000 or less" in rules().problem(
        GOOD | {"steps": [ONE_READS_A] * 1001}
    )
    given = one(**{f"k{i}": 1 for i in range(1000)})
    assert len(list(list_problems(GOOD | given, rules()))) <= 100
