"""`make sample` records requests. Where there are none, what is made up is a stub, and may be refused."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import NOWHERE, PIPELINES, Generate, Project, call, step, succeed

from triton_ensemble.facts.project import Project as Facts
from triton_ensemble.serve.container.request import messages
from triton_ensemble.testing import golden
from triton_ensemble.testing.files import load, samples

STRICT = """\
        for data in TEXT.flat:
            if not bytes(data).startswith(b"good "):
                raise InvalidRequest("TEXT: does not begin with good; send another")
"""
WAY_OUT = 'make sample ARGS="TEXT=@FILE" NAME=one'


@pytest.fixture(scope="module")
def own(generate: Generate) -> Project:
    """Return a project of stubs, with an input of four numbers."""
    return generate(starting_pipeline="my-own", project_name="own")


@pytest.fixture(scope="module")
def texts(generate: Generate) -> Project:
    """Return a project whose first step refuses texts that are made up."""
    tensors = {"TEXT": "STRING[1]", "TOKEN_IDS": "INT64[128]", "LABEL": "STRING[1]"}
    tokenize = step("tokenize", ["TEXT"], ["TOKEN_IDS"])
    label = step("label", ["TOKEN_IDS"], ["LABEL"])
    project = generate(project_name="refusing", tensors=tensors, steps=[tokenize, label])
    file = project / "steps/tokenize.py"
    code = file.read_text().replace("import Context", "import Context, InvalidRequest")
    file.write_text(
        code.replace("        rows = len(TEXT)\n", f"{STRICT}        rows = len(TEXT)\n")
    )
    succeed(project.make("repository"))
    return project


@pytest.fixture(autouse=True)
def _as_before(own: Project, texts: Project) -> Any:
    """Put samples/ back after each test."""
    before = {
        p / "samples": {f: f.read_bytes() for f in (p / "samples").glob("*")} for p in (own, texts)
    }
    yield
    for folder, files in before.items():
        for file in set(folder.glob("*")) - files.keys():
            file.unlink()
        for file, content in files.items():
            file.write_bytes(content)


def recorded(project: Project, name: str) -> Any:
    return json.loads((project / f"samples/{name}.json").read_text())


def test_a_file_is_copied_beside_the_sample_of_its_name(texts: Project, tmp_path: Path) -> None:
    (tmp_path / "my cat.jpg").write_bytes(b"\xff\xd8")
    printed = succeed(texts.make("sample", f"ARGS='TEXT=@{tmp_path}/my cat.jpg'", "NAME=cat"))
    assert printed.splitlines() == [
        "samples/cat.json: TEXT [1, 1] -> no outputs; OUTPUTS=1 records what is answered",
        "samples/my cat.jpg: copied",
        "samples/stub.json: was a stub, and was removed",
    ]
    assert recorded(texts, "cat") == {"inputs": {"TEXT": [[{"file": "my cat.jpg"}]]}}
    [sample] = load(Facts.load(texts.path))
    assert sample.inputs["TEXT"].tolist() == [[b"\xff\xd8"]]


def test_a_text_is_taken_as_it_is(texts: Project) -> None:
    value = """it's $HOME $(HOME) "quoted" `ls`; \\ * = ü"""
    command = (sys.executable, "-m", "triton_ensemble", "sample")
    succeed(texts.run(*command, f"TEXT={value}", "--name", "odd"))
    assert recorded(texts, "odd") == {"inputs": {"TEXT": [[value]]}}


def test_an_empty_text_is_recorded_with_a_warning(texts: Project) -> None:
    line = "TEXT: has an empty text; write TEXT=@FILE for the content of a file\n"
    assert call(texts, "sample", "TEXT=", "--name", "empty").err == line
    assert recorded(texts, "empty") == {"inputs": {"TEXT": [[""]]}}


@pytest.mark.slow
def test_rows_and_answers(own: Project) -> None:
    rows = "INPUT=[1,2,3,4] INPUT=[5,6,7,8]"
    printed = succeed(own.make("sample", f"ARGS={rows}", "OUTPUTS=1", f"HTTP_PORT={NOWHERE}"))
    assert "samples/request-1.json: INPUT [2, 4] -> OUTPUT\n" in printed
    assert recorded(own, "request-1") == {
        "inputs": {"INPUT": [[1, 2, 3, 4], [5, 6, 7, 8]]},
        "outputs": {"OUTPUT": [[0, 0], [0, 0]]},
    }


def test_a_request_as_triton_takes_it(own: Project, tmp_path: Path) -> None:
    tensor = {"name": "INPUT", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 0.5]}
    (tmp_path / "body.json").write_text(json.dumps({"inputs": [tensor]}))
    succeed(own.make("sample", f"REQUEST={tmp_path}/body.json", "NAME=body"))
    assert recorded(own, "body") == {"inputs": {"INPUT": [[1, 2, 3, 0.5]]}}


def test_numbers_of_a_file(own: Project, tmp_path: Path) -> None:
    np.save(tmp_path / "numbers.npy", np.arange(4, dtype=np.float32))
    succeed(own.make("sample", f"ARGS=INPUT=@{tmp_path}/numbers.npy", "NAME=numbers"))
    assert recorded(own, "numbers") == {"inputs": {"INPUT": [[0, 1, 2, 3]]}}


def test_names_that_are_no_words_of_make(generate: Generate) -> None:
    project = generate(**PIPELINES["awkward names"])
    command = Facts.load(project.path).sample_command()
    assert command == (
        "make sample ARGS=\"input.1=JSON 'Merchant Name=@FILE' 'merchant name=@FILE'\" NAME=one"
    )
    values = {"input.1=JSON": "input.1=[1,2,3,4]", "t Name=@FILE": "t Name=a=b"}
    for old, new in values.items():
        command = command.replace(old, new)
    (project / "README").write_text("in it")
    [words] = re.findall('"(.*)"', command.replace("merchant name=@FILE", "merchant name=@README"))
    succeed(project.make("sample", f"ARGS={words}", "NAME=one"))
    assert recorded(project, "one")["inputs"] == {
        "input.1": [[1, 2, 3, 4]],
        "Merchant Name": [["a=b"]],
        "merchant name": [[{"file": "README"}]],
    }


def test_a_name_that_looks_like_an_option_and_bytes_of_a_file(generate: Generate) -> None:
    """The commands that are printed work, and a file is the bytes of UINT8[-1]."""
    project = generate(
        tensors={"---z": "STRING[1]", "RAW": "UINT8[-1]", "OUT": "INT64[1]"},
        steps=[step("work", ["---z", "RAW"], ["OUT"])],
    )
    (project / "cat.png").write_bytes(b"\x89PNG\0\n")
    command = Facts.load(project.path).sample_command().replace("RAW=JSON", "RAW=@cat.png")
    [shown] = re.findall(r'make sample (ARGS=".+?")', (project / "AGENTS.md").read_text())
    for words in (
        shlex.split(command)[2:],
        [*shlex.split(f'{shown[:-1]} RAW=@cat.png"'), "NAME=two"],
    ):
        succeed(project.make("sample", *[word.replace("@FILE", "@Makefile") for word in words]))
    inputs = {"---z": [[{"file": "Makefile"}]], "RAW": [[*b"\x89PNG\0\n"]]}
    assert recorded(project, "one")["inputs"] == recorded(project, "two")["inputs"] == inputs


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], 'sample: of which request? Write: make sample ARGS="INPUT=JSON" NAME=one'),
        (["INPT=[1]"], "sample: INPT=[1]: write INPUT=VALUE; inputs are INPUT"),
        (
            ["INPUT=[1, 2]"],
            "sample: INPUT has shape [1, 2]; it must be [-1, 4], where -1 is any num",
        ),
        (["INPUT=one"], "sample: INPUT: one: is neither JSON nor a file: Expecting value"),
        (["INPUT=@gone"], "sample: gone: No such file or directory"),
        (["INPUT=[1,2,3,4]", "--name=a/b"], "sample: a/b: is not a file name; write letters"),
        (["--request=Makefile"], "sample: Makefile: is not the JSON body of a request like {"),
        (["--request=gone"], "sample: gone: No such file or directory"),
    ],
)
def test_what_is_wrong_is_one_line(own: Project, words: list[str], line: str) -> None:
    said = call(own, "sample", *words)
    assert said.status
    [text] = said.err.splitlines()
    assert text.startswith(line)
    assert os.listdir(own / "samples") == ["stub.json"]


def test_a_sample_is_not_replaced(own: Project) -> None:
    for status in (0, 2):
        process = own.make("sample", "ARGS=INPUT=[1,2,3,4]", "NAME=one")
        assert process.returncode == status
    line = "sample: samples/one.json: exists already; write another NAME, or remove it"
    assert process.stderr.startswith(line)


def test_another_file_of_the_name_is_not_replaced(texts: Project, tmp_path: Path) -> None:
    (texts / "samples/a.txt").write_text("mine")
    (tmp_path / "a.txt").write_text("other")
    process = texts.make("sample", f"ARGS=TEXT=@{tmp_path}/a.txt", "NAME=one")
    assert (
        f"sample: samples/a.txt: exists already and differs from {tmp_path}/a.txt; rename"
        in process.stderr
    )
    assert (texts / "samples/a.txt").read_text() == "mine"


# What is made up.


def test_a_stub_is_no_request_of_the_owners(own: Project) -> None:
    facts = Facts.load(own.path)
    assert load(facts) == []
    [stub] = samples(facts)
    assert (stub.name, stub.made_up) == ("stub", True)
    (own / "samples/stub.json").write_text(
        '{"stub": "of another pipeline", "inputs": {"X": [[1]]}}'
    )
    [zeros] = samples(facts)
    assert (zeros.name, zeros.inputs["INPUT"].tolist()) == ("zeros", [[0, 0, 0, 0]])


def test_zeros_of_a_large_tensor_are_its_shape(generate: Generate) -> None:
    project = generate(
        project_name="large",
        tensors={"A": "FP32[3, 16, 16]", "B": "INT64[1]", "O": "FP32[1]"},
        steps=[{"name": "one", "backend": "python", "inputs": ["A", "B"], "outputs": ["O"]}],
    )
    assert recorded(project, "stub")["inputs"] == {"A": {"zeros": [1, 3, 16, 16]}, "B": [[0]]}
    facts = Facts.load(project.path)
    [stub] = samples(facts)
    assert {n: (a.dtype.name, a.shape) for n, a in stub.inputs.items()} == {
        "A": ("float32", (1, 3, 16, 16)),
        "B": ("int64", (1, 1)),
    }
    of_a_stub = messages(facts)
    text = (project / "samples/stub.json").read_text()
    (project / "samples/mine.json").write_text(text.replace('"stub"', '"comment"'))
    assert messages(facts) == of_a_stub


@pytest.mark.slow
def test_a_strict_step_refuses_what_is_made_up_and_the_tests_fail(texts: Project) -> None:
    """Without a request, unit tests of what reads texts are skipped. Tests and `make infer` say what to do."""
    pytests = ("-m", "pytest", "-q", "-rsf", "-p", "no:cacheprovider", "tests")
    process = texts.run(sys.executable, *pytests)
    assert process.returncode == 1
    printed = process.stdout
    assert f"samples/ has no request; record one: {WAY_OUT}" in printed
    assert (
        f"TEXT: does not begin with good; send another; the template made up this sample, so record a request: {WAY_OUT}"
        in re.sub(r"\s+", " ", printed)
    )
    process = texts.make("infer", f"HTTP_PORT={NOWHERE}")
    assert process.returncode
    assert process.stderr.startswith(
        "sample stub: in ensemble 'refusing', step tokenize: TEXT: does not"
    )
    assert process.stderr.splitlines()[0].endswith(
        f"; the template made up this sample, so record a request: {WAY_OUT}"
    )


@pytest.mark.slow
def test_samples_are_what_a_strict_step_is_sent(texts: Project) -> None:
    succeed(texts.make("sample", "ARGS='TEXT=good news'", "NAME=news"))
    pytests = ("-m", "pytest", "-v", "-p", "no:cacheprovider", "tests")
    printed = succeed(texts.run(sys.executable, *pytests))
    skipped = {line.partition(" ")[0] for line in printed.splitlines() if " SKIPPED" in line}
    assert {name.partition("::")[0] for name in skipped} <= {"tests/test_reference.py"}


# Answers that were recorded before the outputs changed.


def test_a_change_of_outputs_is_named(default_project: Project, tmp_path: Path) -> None:
    facts = Facts.load(default_project.path)
    sample = next(one for one in samples(facts) if one.name == "digit-7")
    record = {"answers": {"digit-7": [{"LABEL": [["7"]], "OLD": [[1.0]]}]}}
    path = default_project / "tests/golden.json"
    path.write_text(json.dumps(record))
    try:
        answer = {"LABEL": np.array([[b"7"]], object), "SCORE": np.ones((1, 1), np.float32)}
        assert golden.problem(facts, sample, [answer]).splitlines() == [
            "golden.json: digit-7: output SCORE is new",
            "golden.json: digit-7: output OLD is gone",
            "if the new answers are right: make golden",
        ]
        path.unlink()
        facts = dataclasses.replace(facts, outputs=("SCORE",))
        assert golden.problem(facts, sample, [{"SCORE": answer["SCORE"]}]).splitlines() == [
            "samples/digit-7.json: output LABEL is gone",
            "if that is meant: remove LABEL from samples/digit-7.json",
        ]
    finally:
        path.unlink(missing_ok=True)
