"""The pipeline as text, one line a step: what it says, what is wrong with it, and that nothing is lost on the way."""

from __future__ import annotations

import contextlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import copier
import pytest
import yaml
from adopt_support import CORPUS
from copier.errors import UserMessageError
from gatekeeper import DEFAULTS, Gatekeeper
from support import PIPELINES, ROOT, Generate, problem, step

from triton_ensemble.author.adopt.command import adopt
from triton_ensemble.author.adopt.refusal import Refused
from triton_ensemble.compile.flow import Answers, format_flow
from triton_ensemble.compile.rules import Rules, problems_in
from triton_ensemble.facts import catalog

START: dict[str, str] = catalog.table("prompts")["start"]
COLUMNS = 80 - len("Validation error for question 'flow': ")
EXAMPLE = yaml.safe_load((ROOT / "examples/image-classification/pipeline.yml").read_text())
RULES = Rules(ROOT)
parse: Callable[[str], str] = RULES.templates.macro("flow", "flow_parts")
THREE = """\
decode python: IMAGE STRING[1] -> PIXELS FP32[3,224,224]
classify onnxruntime: PIXELS -> LOGITS FP32[1000]
label python: LOGITS -> LABEL STRING[1], SCORE FP32[1]
"""


def said(text: str) -> Answers:
    """Return the tensors, steps and outputs of a text without problems."""
    parts = json.loads(parse(text))
    assert not parts["problems"]
    return {field: parts[field] for field in ("tensors", "steps", "outputs")}


def test_three_lines() -> None:
    assert said(THREE) == {
        "tensors": {
            "IMAGE": "STRING[1]",
            "PIXELS": "FP32[3, 224, 224]",
            "LOGITS": "FP32[1000]",
            "LABEL": "STRING[1]",
            "SCORE": "FP32[1]",
        },
        "steps": [
            step("decode", ["IMAGE"], ["PIXELS"]),
            step("classify", ["PIXELS"], ["LOGITS"], "onnxruntime"),
            step("label", ["LOGITS"], ["LABEL", "SCORE"]),
        ],
        "outputs": [],
    }


@pytest.mark.parametrize("topology", START)
def test_a_text_to_start_from_is_accepted(topology: str) -> None:
    assert Gatekeeper(ROOT).line(said(START[topology])) == ""


def test_without_a_topology_it_is_the_example() -> None:
    example = yaml.safe_load((ROOT / "examples/my-own/pipeline.yml").read_text())
    assert said(START["other"]) == example | {"outputs": []}


AB = {"A": "FP32[2]", "B": "FP32[2]"}
# A line, and the step or tensors that it makes.
SAYS: list[tuple[str, Answers]] = [
    ("s python x2: A FP32[2] -> B FP32[2]", step("s", ["A"], ["B"], instances=2)),
    ("s onnxruntime: in=A FP32[2] -> out = B FP32[2]", step("s", {"in": "A"}, {"out": "B"}, "onnxruntime")),
    ("s python: in=A FP32[2] -> B FP32[2]", step("s", {"in": "A"}, ["B"])),
    (
        "s python: A FP32[2] as [2, 1] -> B FP32[2]",
        step("s", {"A": {"tensor": "A", "dims": [2, 1]}}, ["B"]),
    ),
    ("s python: A FP32[2] as [] -> B FP32[2]", step("s", {"A": {"tensor": "A", "dims": []}}, ["B"])),
    (
        "s python: A FP32[2], x=- INT64[1] optional -> B FP32[2], y=- FP16[-1,4]",
        step(
            "s",
            {"A": "A", "x": {"type": "INT64", "dims": [1], "optional": True}},
            {"B": "B", "y": {"type": "FP16", "dims": [-1, 4]}},
        ),
    ),
    ("s python:A FP32[2]->B FP32[2]", step("s", ["A"], ["B"])),
    ("  s   python :\tA\tFP32[ 2 ] -> B FP32[2],  # all of it", step("s", ["A"], ["B"])),
    ("# a\n\ns python: A FP32[2]\r\n  -> B\n  FP32[2]\n# b", step("s", ["A"], ["B"])),
]  # fmt: skip
TENSORS: list[tuple[str, Answers]] = [
    ("HINT FP32[2] optional", {"HINT": {"type": "FP32", "dims": [2], "optional": True}}),
    ("Use Chip FP32[-1]", {"Use Chip": "FP32[-1]"}),
    ("Errors? FP32[1]", {"Errors?": "FP32[1]"}),
    ("Sigmoid:0 FP32[1]", {"Sigmoid:0": "FP32[1]"}),
    ("a/b_0.tmp_1 FP32[1], 389 FP32[1]", {"a/b_0.tmp_1": "FP32[1]", "389": "FP32[1]"}),
    ("größe FP32[1]", {"größe": "FP32[1]"}),
    (
        r'"a,b = [c] -> # \"\\ \ud83d\ude00" FP32[1], "A INT8" FP32[1]',
        {'a,b = [c] -> # "\\ \U0001f600': "FP32[1]", "A INT8": "FP32[1]"},
    ),
    ('"-" FP32[1], "1" FP32[1]', {"-": "FP32[1]", "1": "FP32[1]"}),
]


@pytest.mark.parametrize(("line", "expected"), SAYS)
def test_what_a_line_says(line: str, expected: Answers) -> None:
    assert said(line) == {"tensors": AB, "steps": [expected], "outputs": []}


@pytest.mark.parametrize(("uses", "expected"), TENSORS)
def test_names_of_tensors(uses: str, expected: Answers) -> None:
    assert said(f"s python: {uses} -> OUT FP32[1]")["tensors"] == expected | {"OUT": "FP32[1]"}


def test_a_type_stands_anywhere_and_models_are_used_again() -> None:
    text = (
        "one m.1: A -> B FP32[2]\ntwo =one: B -> C FP32[2]\nthree python: C, A FP32[2] -> D FP32[1]"
    )
    assert said(f"{text}\noutputs: D, B")["outputs"] == ["D", "B"]
    assert said(text)["steps"][1] == {
        "name": "two",
        "model": "one",
        "inputs": ["B"],
        "outputs": ["C"],
    }
    assert said(text)["tensors"]["A"] == "FP32[2]"


# A text that is wrong, and what a terminal of 80 columns shows of the line about it.
WRONG: list[tuple[str, str]] = [
    ("", "write `one python: A FP32[1] -> B FP32[1]`"),
    ("# nothing", "write `one python: A FP32[1] -> B FP32[1]`"),
    ("decode", "line 1: write `NAME BACKEND: IN -> OUT`"),
    ("decode python A -> B", "line 1: write `NAME BACKEND: IN -> OUT`"),
    ("\ndecode: A -> B", "line 2: write `decode python:`, or another"),
    ("s python two: A -> B", "line 1: write `x2` for two instances, not "),
    ("my s python: A -> B", "line 1: drop the spaces in my s"),
    ("a python: X FP32[1] -> A FP32[1], B FP32[1]\nb python: A B -> C FP32[1]", "line 2: write commas: A, B"),
    ("s python: A FP32[1] => B FP32[1]", "line 1: write one -> behind what it reads"),
    ("s python: A FP32[1] -> B FP32[1] -> C", "line 1: write one -> behind what it reads"),
    ("s python: A FP32[1] -> B", "line 1: give B its type, like FP32[4]"),
    ("s python: A STRING -> B FP32[1]", "line 1: give A STRING its type, like FP32["),
    ("s python: PIXELS[3] -> B FP32[1]", "line 1: write NAME TYPE[dims], not PIXELS["),
    ("s python: A FP32[x] -> B FP32[1]", "line 1: write NAME TYPE[dims], not A FP32["),
    ("s python: A FP32[1 -> B FP32[1]", "line 1: write NAME TYPE[dims], not A FP32["),
    ('s python: "A FP32[1] -> B FP32[1]', 'line 1: write NAME TYPE[dims], not "A FP32'),
    ("s python: A FP32[0] -> B FP32[1]", "line 1: write 1 or more, or -1 where it va"),
    ("s python: A FP32[] -> B FP32[1]", "line 1: write TYPE[dims], like FP32[3, 224"),
    ("s python: A float[1] -> B FP32[1]", "line 1: write FP32 (tensor A: has the type"),
    ("s python: A FP23[1] -> B FP32[1]", "line 1: did you mean FP32? (tensor A: has "),
    ("s python: A TENSOR[1] -> B FP32[1]", "line 1: tensor A: has the type TENSOR; wri"),
    ("s onnx: A FP32[1] -> B FP32[1]", "line 1: did you mean onnxruntime? (step s:"),
    ("a/b python: A FP32[1] -> B FP32[1]", "line 1: write a name of letters, digits, `"),
    ("s python x0: A FP32[1] -> B FP32[1]", "line 1: write a whole number, 1 or more (s"),
    ("s python: A FP32[1] -> B FP32[1]\nt python: A INT8[1] -> C INT8[1]", "line 2: drop INT8[1]; line 1 types A"),
    ("s python: PIXELS FP32[1] -> B FP32[1]\nt python: PIXEL -> C INT8[1]", "line 2: did you mean PIXELS? PIXEL lacks a"),
    ("s python: x=A FP32[1], x=A -> B FP32[1]", "line 1: drop the second x"),
    ("s python: A FP32[1], - INT8[1] -> B FP32[1]", "line 1: write NAME=- TYPE[dims] where - is"),
    ("s python: A FP32[1], x=- -> B FP32[1]", "line 1: write NAME=- TYPE[dims] where - is"),
    ("s python: A FP32[1] -> B FP32[1], x=- FP32[1] optional", "line 1: drop `optional`; x is an output"),
    ("s python: A FP32[1] -> B FP32[1]\noutputs: B optional", "line 2: drop `optional`; B is an output"),
    ("s python: A FP32[1] -> B FP32[1]\ns python: B -> C FP32[1]", "line 2: give one of them another name (ste"),
    ("s python: A FP32[1] -> B FP32[1]\noutputs: C", "line 2: give C its type, like FP32[4]"),
    ("s python: -> B FP32[1]", "line 1: write a tensor on each side of ->"),
    ("s python: A FP32[1] -> B FP32[1]\nt python: A -> B", "line 2: rename one B (step t: writes B, wh"),
    ("s python: A FP32[1], C FP32[1] -> B FP32[1]\nt python: B -> C", "line 1: let one read something else (step "),
    ("s python: A FP32[1] -> B FP32[1]\nt python: B -> C FP32[1], D FP32[1]\noutputs: C", "line 2: add D to `outputs`, or write its {"),
    ("s python: A FP32[1] -> B FP32[1]\nt python: C FP32[1] -> D FP32[1]", "write `ensemble: {all_outputs: true}` (out"),
    ("s python: A FP32[1], x=- FP32[1] -> B FP32[1]", "line 1: give x a `tensor`, or make it `opt"),
    ("p python: A FP32[1] -> B FP32[1]", "line 1: rename one (step p: has the name o"),
]  # fmt: skip


def at_prompt(text: str) -> str:
    """Return what the prompt says of a text, once the questions before it are answered."""
    context = {**DEFAULTS, "topology": "other", "_copier_answers": DEFAULTS}
    module: Any = RULES.templates.template("hooks/questions.jinja").make_module(
        {**context, "_copier_conf": {"data": {}}}
    )
    return str(module.flow_at_prompt(text)).strip()


@pytest.mark.parametrize(("text", "shown"), WRONG)
def test_what_is_wrong_fits_a_terminal(text: str, shown: str) -> None:
    assert at_prompt(text)[:COLUMNS] == shown


def test_what_is_wrong_is_told_in_full_where_there_is_room() -> None:
    assert at_prompt("\ns onnx: A FP32[1] -> B FP32[1]") == (
        'line 2: did you mean onnxruntime? (step s: backend is "onnx")'
    )


def plain(binding: Any) -> Answers:
    """Return a tensor or a binding as a mapping, without what the notation leaves to pipeline.yml."""
    if isinstance(binding, str):
        kind, _, dims = binding.partition("[")
        return {"type": kind.strip(), "dims": [int(dim) for dim in dims.rstrip("] ").split(",")]}
    left = {"format", "labels", "ragged", "reshape"}
    return {k: str(v) if k == "tensor" else v for k, v in binding.items() if k not in left}


def bindings(given: Any) -> Answers:
    pairs = given.items() if isinstance(given, dict) else ((own, own) for own in given)
    return {
        str(own): plain(bound if isinstance(bound, dict) else {"tensor": bound})
        for own, bound in pairs
    }


def comparable(answers: Answers) -> Answers:
    """Return of a pipeline what the notation has."""
    steps = [
        [s["name"], s.get("backend", s.get("model")), bindings(s["inputs"]), bindings(s["outputs"])]
        for s in answers["steps"]
    ]
    tensors = {str(name): plain(spec) for name, spec in answers["tensors"].items()}
    return {
        "steps": steps,
        "tensors": tensors,
        "outputs": [str(name) for name in answers.get("outputs") or ()],
    }


@pytest.mark.parametrize("pipeline", [p for p in PIPELINES if "steps" in PIPELINES[p]])
def test_a_pipeline_comes_back_from_its_text(pipeline: str) -> None:
    answers = PIPELINES[pipeline]
    answers = {"tensors": EXAMPLE["tensors"], **answers}
    assert comparable(said(format_flow(answers))) == comparable(answers)


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the corpus of public ensembles")
def test_the_public_ensembles_come_back_from_their_texts(tmp_path: Path) -> None:
    """One has a model whose inputs are optional where those of the ensemble are not."""
    spec = importlib.util.spec_from_file_location("measure", CORPUS / "measure.py")
    assert spec is not None
    assert spec.loader is not None
    measure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(measure)
    taken, same = 0, 0
    for record in json.loads((CORPUS / "public-ensembles.json").read_text()):
        ensemble = measure.unpack(record, tmp_path / record["id"])
        with contextlib.suppress(Refused):
            answers = adopt(tmp_path / record["id"], ensemble).answers
            text = format_flow(answers)
            assert format_flow(said(text)) == text
            taken, same = taken + 1, same + (comparable(said(text)) == comparable(answers))
    assert taken >= 46
    assert taken - same <= 1


# What is put into a text, or takes the place of a part of it.
PIECES = [
    *"\x00\t\r\n \\\"[]=,:#-><x0é\u2028\x1b'{}%",
    *("->", "=>", "on", "012", "24.10", "as", "optional", "outputs:", "FP32[4]", "FLOAT[4]", "[-1]"),
    *("[9999999999999999999]", "x0", "=one", '"a,b"', '"\\ud800"', "\n  ", "\r\n", "\U0001d538", "A" * 400, "- "),
]  # fmt: skip


def mutant(random: Random) -> str:
    """Return a text to start from with a few changes."""
    text = random.choice([*START.values(), THREE, "one python x2: a=A FP32[1] -> B FP32[1]"])
    for _ in range(random.randint(0, 4)):
        start = random.randrange(len(text) + 1)
        end = start + random.choice([0, 0, 1, 1, 3, 20])
        text = text[:start] + random.choice([*PIECES, ""]) + text[end:]
    return text * random.choice([1] * 50 + [0, 2, 30])


@pytest.mark.parametrize("count", [300, pytest.param(3_000, marks=pytest.mark.slow)])
def test_whatever_the_text_there_is_an_answer(count: int) -> None:
    """It has a problem of one line, or becomes a pipeline that comes back from its text."""
    random = Random(count)
    accepted = 0
    for text in (mutant(random) for _ in range(count)):
        told = json.loads(parse(text))
        lines = [RULES.line(each) for each in problems_in(told["problems"])]
        assert "".join(lines).isprintable(), text
        if not lines:
            accepted += 1
            assert comparable(said(format_flow(told))) == comparable(told), text
    assert accepted > count / 10


@pytest.mark.slow
def test_whatever_the_text_copier_prints_a_line_or_makes_a_project(
    template: Path, tmp_path: Path
) -> None:
    random = Random(200)
    for number in range(80):
        folder, data = tmp_path / str(number), {"flow": mutant(random)}
        line = ""
        try:
            copier.run_copy(str(template), folder, data=data, defaults=True, quiet=True)
        except UserMessageError as error:
            line = problem(error)
        assert line.isprintable()
        assert (folder / "pipeline.yml").exists() == (not line)
        assert folder.exists() == (not line)


def test_a_file_has_the_text_or_what_it_makes(generate: Generate) -> None:
    by_text, by_tables = generate(flow=THREE), generate(**said(THREE))
    assert by_text.contents() == by_tables.contents()
    line = Gatekeeper(ROOT).line({"flow": THREE, **said(THREE)})
    assert line.startswith("flow: makes tensors and steps, which are there already")
