"""The dry check of a pipeline.yml: what the template refuses, then what Triton would, each with its line."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml
from support import ROOT

from triton_ensemble.check.pipeline.check import check_pipeline
from triton_ensemble.cli import main
from triton_ensemble.compile.render import render_configs
from triton_ensemble.compile.rules import Rules, rules_with
from triton_ensemble.facts.catalog import template_root

GOOD = """\
# What it is for
project_name: demo
tensors:
  A: FP32[4]
  B: {type: FP32, dims: [4],
      labels: names.txt}
  Merchant Name: STRING[1]
  C: FP32[4]
steps:
  - name: one
    backend: python
    inputs: [A, Merchant Name]
    outputs: [B]
    fuse: false
  - name: two
    backend: onnxruntime
    inputs: {x: B}
    outputs:
      y: C
    max_batch_size: 8
    batching:
      priority_levels: 2
      default_priority_level: 1
"""


def lines(folder: Path, text: str) -> list[str]:
    path = folder / "pipeline.yml"
    path.write_text(text)
    return [
        f"{f.line}: {f.severity}: {f.rule}: {f.what}; {f.instead}" for f in check_pipeline(path)
    ]


def test_nothing_is_said_of_a_good_one(tmp_path: Path) -> None:
    assert lines(tmp_path, GOOD) == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*/pipeline.yml")), ids=str)
def test_nor_of_the_examples(path: Path) -> None:
    assert check_pipeline(path) == []


# What is changed to what in GOOD, and the line that it is about.
REFUSED = {
    "an answer": ("demo", "de mo", 2, "project_name"),
    "a question that is none": ("project_name", "project", 2, "project: is not a question"),
    "a tensor": ("C: FP32[4]", "C: FP3[4]", 8, "tensor C: has the type FP3"),
    "a tensor with a blank in its name": ("STRING[1]", "STRING[0]", 7, "tensor Merchant Name"),
    "a field of a tensor": ("labels:", "lables:", 6, "tensor B"),
    "a field of a step": ("max_batch_size: 8", "max_batch_size: -8", 20, "max_batch_size is -8"),
    "a field in a field": ("priority_levels: 2", "priority_levels: x", 22, "priority_levels is"),
    "a binding": ("y: C", "y: {tensor: C, reshape: [0]}", 19, "y reshape has the dim 0"),
    "a tensor that a step reads": ("x: B", "x: D", 17, "reads D, which is not in `tensors`"),
    "a tensor that a step lists": ("[B]", "[C]", 19, "writes C"),
    "a field of the ensemble": (
        "steps:\n",
        "ensemble: {config: 'platform: \"x\"'}\nsteps:\n",
        9,
        "ensemble: has in `config` platform",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_template_refuses(name: str, tmp_path: Path) -> None:
    before, after, line, words = REFUSED[name]
    assert before in GOOD
    [message] = lines(tmp_path, GOOD.replace(before, after))
    assert message.startswith(f"{line}: error: answers: "), message
    assert words in message


# The same for what only the check of the configs says, with the model and the field.
FINDINGS = {
    "a rule on a field": (
        "level: 1",
        "level: 3",
        23,
        "batching-priority: step two: batching.default_priority_level: ",
    ),
    "`config` on one line": (
        "    max_batch_size: 8\n",
        "    max_batch_size: 8\n    config: 'runtime: \"x\"'\n",
        21,
        "backend: step two: config: unable to find backend library 'x'",
    ),
    "a field of `config`": (
        "      default_priority_level: 1\n",
        "      default_priority_level: 1\n    config: |\n      # its own\n      instance_group { kind: 9 }\n",
        26,
        "instance-kind: step two: config: instance group two_1 ",
    ),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_what_the_check_finds_in_the_configs(name: str, tmp_path: Path) -> None:
    before, after, line, words = FINDINGS[name]
    [message] = lines(tmp_path, GOOD.replace(before, after))
    assert message.startswith(f"{line}: error: {words}"), message


SEVERAL = """\
ci: gitlub
tensors:
  A: FP32[4]
  B: FP33[4]
  C: FP32[4]
  D: FP32[4]
  E: FP32[4]
steps:
  - {name: good, backend: python, inputs: [A], outputs: [E]}
  - {name: one, backend: onnx, inputs: [A], outputs: [C]}
  - {name: also, model: one, inputs: [A], outputs: [C]}
  - {name: two, backend: python, inputs: [A], outputs: [B]}
  - {name: three, backend: python, inputs: [C], outputs: [D], instances: -1}
  - {name: four, backend: python, inputs: [Q], outputs: [F]}
"""


def test_independent_problems_are_said_at_once(tmp_path: Path) -> None:
    """A step that shares the model or reads the tensors of a refused step is not a problem of its own."""
    path = tmp_path / "pipeline.yml"
    path.write_text(SEVERAL)
    found = [(each.line, each.what) for each in check_pipeline(path)]
    assert found == [
        (1, 'ci is "gitlub"'),
        (4, "tensor B: has the type FP33"),
        (10, 'step one: backend is "onnx"'),
        (13, "step three: instances is -1"),
        (14, "step four: reads Q, which is not in `tensors`"),
    ]


def test_no_more_than_ten_problems(tmp_path: Path) -> None:
    steps = [
        {"name": f"s{i}", "backend": "onnx", "inputs": ["A"], "outputs": [f"B{i}"]}
        for i in range(20)
    ]
    tensors = {name: "FP32[1]" for name in ("A", *(f"B{i}" for i in range(20)))}
    path = tmp_path / "pipeline.yml"
    path.write_text(yaml.safe_dump({"tensors": tensors, "steps": steps}))
    assert len(check_pipeline(path)) == 10


def test_inner_ensembles(tmp_path: Path) -> None:
    inner = GOOD.partition("tensors:")[2].replace("\n", "\n    ").replace("x: B", "x: D")
    text = f"""\
tensors: {{A: "FP32[4]", M: "STRING[1]", C: "FP32[4]"}}
steps:
  - name: inner
    backend: ensemble
    inputs: {{A: A, Merchant Name: M}}
    outputs: {{C: C}}
    tensors:{inner}
"""
    [message] = lines(tmp_path, text)
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "x: D" in row)
    assert message.startswith(f"{line}: error: answers: step inner, inside: step two: reads D")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "1: "),
        ("- a\n", "1: "),
        ("a: 1\nb: [\n", "3: column 1: "),
        ("a: b: c", "1: column 5: "),
        ("a:\n  b: 1\n  b: 2\n", "3: "),
    ],
)
def test_what_has_no_answers(text: str, place: str, tmp_path: Path) -> None:
    line, _, column = place.partition(": ")
    [message] = lines(tmp_path, text)
    assert message.startswith(f"{line}: error: answers: {column}")


# Each level has the one before ten times: 10^7 values in a few hundred characters.
WIDE = "a: &a [x]\n" + "".join(
    f"{two}: &{two} [{', '.join([f'*{one}'] * 10)}]\n"
    for one, two in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("\ntriton_release: 2026-13-01\n", 2, "2026-13-01 can't be read: month must be in 1..12"),
        (f"gpu_count: {'9' * 5000}\n", 1, f"answers: {'9' * 200} ... "),
        ("\n\nci: !!int foo\n", 3, "foo can't be read: invalid literal"),
        (
            "gpu_count: 0\nmax_batch_size: 012\n",
            2,
            "012 is 10 to YAML; write 10, or a text in quotes",
        ),
        ("max_batch_size: 1:30\n", 1, "1:30 is 90 to YAML; write 90, or a text in quotes"),
        ("ci: a\n2: x\n", 2, "has the key 2, which YAML does not read as text; write it in quotes"),
        ("ci: a\n? [1, 2]\n: x\n", 2, "has a key that is a list or a mapping; write a text"),
        ("ci: {2026-01-02: a}\n", 1, "ci is {}; write one of github"),
        ("tensors: !!set {A}\n", 1, "tensors: is not a mapping; write `NAME: TYPE[dims]`"),
        ('ensemble: {parameters: {a: "\\ud800"}}\n', 1, 'a: has "\\ud800", which is not a text'),
        ("inputs: {null: x}\n", 1, "inputs has the key null; write it in quotes"),
        ("steps: &s\n  - {steps: *s}\n", 1, "says more than 100000 values by its aliases"),
        (WIDE, 6, "says more than 100000 values by its aliases; write out what they stand for"),
        (f"a: {'[' * 3000}\n", 1, "goes too deep; drop some of its brackets"),
        ("ci: a\nb: \x07\n", 2, "has the control character '\\x07'; drop it"),
    ],
)
def test_what_yaml_takes_and_no_answer_can_be(
    text: str, line: int, said: str, tmp_path: Path
) -> None:
    [message] = lines(tmp_path, text)
    assert message.startswith(f"{line}: error: answers: ")
    assert said in message


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yml"
    path.write_bytes(b"ci: none\nproject_name: caf\xe9\n")
    [finding] = check_pipeline(path)
    assert (finding.line, finding.what, finding.instead) == (2, "is not UTF-8", "save it as UTF-8")


def test_numbers_and_tables_may_be_texts(tmp_path: Path) -> None:
    """Copier reads them so."""
    tables = yaml.safe_load(GOOD)
    texts = {name: yaml.safe_dump(tables[name]) for name in ("tensors", "steps")}
    given = tables | texts | {"max_batch_size": "8", "gpu_count": "0"}
    assert lines(tmp_path, yaml.safe_dump(given)) == []


def test_answers_of_the_project_that_it_does_not_have(tmp_path: Path) -> None:
    """An update keeps the others too, but for those that pipeline.yml leaves out."""
    steps = yaml.safe_load(GOOD)["steps"]
    last = {"gpu_count": 1, "outputs": ["nowhere"], "steps": steps, "_commit": "v1", "owned": []}
    last["no_more"] = "an answer to a question of an older version"
    (tmp_path / ".copier-answers.yml").write_text(yaml.safe_dump(last))
    text = GOOD.replace("    max_batch_size: 8\n", "    device: gpu\n")
    assert lines(tmp_path, text) == []
    assert "no_more: is not a question" in lines(tmp_path, f"{text}no_more: 1\n")[0]
    (tmp_path / ".copier-answers.yml").unlink()
    assert "runs on the GPU" in lines(tmp_path, text)[0]


def test_as_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pipeline.yml"
    path.write_text(GOOD.replace("x: B", "x: D"))
    assert main(["check", str(path)]) == 1
    assert capsys.readouterr().out.startswith(f"{path}:17: error: answers: step two: reads D, ")
    path.write_text(GOOD)
    assert main(["check", str(path)]) == 0


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    rules_with.cache_clear()
    (tmp_path / "pipeline.yml").write_text(GOOD)
    assert main(["check", str(tmp_path / "pipeline.yml")]) == 2
    assert capsys.readouterr().err == (
        "jinja2 is missing, which the rules on pipeline.yml need; "
        "run: pip install 'triton-ensemble[answers]'\n"
    )


def test_the_wheel_has_all_that_the_rules_read(tmp_path: Path) -> None:
    """Its paths are those of pyproject.toml. In a clone they stand at the root."""
    assert template_root() == ROOT
    wheel = tmp_path / "triton_ensemble"
    listed = re.findall(
        r'^"?([\w/.-]+)"? = "triton_ensemble/([^"]+)"',
        (ROOT / "pyproject.toml").read_text(),
        re.MULTILINE,
    )
    assert listed
    for source, target in listed:
        (wheel / target).parent.mkdir(parents=True, exist_ok=True)
        (wheel / target).symlink_to(ROOT / source)
    of_wheel = Rules(wheel)
    assert render_configs(of_wheel, of_wheel.answer({})).keys() == {
        "preprocess",
        "classify",
        "label",
        "image_classification",
    }
