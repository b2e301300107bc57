"""`triton-ensemble new` and `add-step`, told at a real terminal, and the projects that they make."""

from __future__ import annotations

import sys
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pytest
import yaml
from guide_support import FAN, write_onnx
from new_support import (
    BRINGS,
    COPIERS,
    FILE,
    IS_IT,
    NAME,
    ONNX,
    PATH,
    PYTHON,
    READS,
    RUNS,
    WRITES,
    made,
)
from support import NOWHERE, Generate, Project, run, succeed
from terminal import CLEAR, DOWN, END, ENTER, ESCAPE, INTERRUPT, SIZES, SPACE, UP, Terminal

COMMAND = Path(sys.executable).with_name("triton-ensemble")


def new(template: Path, folder: Path, size: tuple[int, int] = (24, 80)) -> Terminal:
    options = ["--template", str(template), "--data", "ci=none"]
    return Terminal(["new", "p", *options], folder, size, COMMAND)


@pytest.mark.slow
def test_data_may_be_a_list(template: Path, tmp_path: Path) -> None:
    options = ["--template", str(template), "--data", "ci=none", "--data", "extras=[gateway]"]
    terminal = Terminal(["new", "p", *options], tmp_path, program=COMMAND)
    terminal.answer(NAME, "double" + ENTER)
    terminal.answer(RUNS, PYTHON)
    terminal.answer(BRINGS, "X FP32[4]" + ENTER)
    terminal.answer(WRITES, "Y FP32[4]" + ENTER)
    terminal.answer(NAME, ENTER)
    for question in (IS_IT, *COPIERS[:3]):
        terminal.answer(question)
    terminal.ends("p")
    assert (tmp_path / "p/gateway/app.py").exists()


@pytest.mark.slow
@SIZES
def test_a_fan_is_told_step_by_step(template: Path, tmp_path: Path, size: tuple[int, int]) -> None:
    """With a mistake and its correction, a way back, an interrupt and a second session. It is served and asked."""
    terminal = new(template, tmp_path, size)
    terminal.answer(NAME, "features" + ENTER)
    terminal.answer(RUNS, PYTHON)
    terminal.answer(BRINGS, "EVENT STRING[1]" + ENTER)
    terminal.answer(WRITES, "FEATURES FP32" + ENTER)
    terminal.shows("give FEATURES FP32 its type")
    terminal.answer(WRITES, "[32]" + ENTER)
    terminal.shows("* features: EVENT -> FEATURES")
    terminal.answer(NAME, "clack" + ENTER)
    terminal.answer(RUNS, ESCAPE)
    terminal.answer(NAME, CLEAR + "click" + ENTER)
    terminal.answer(RUNS, ONNX)
    terminal.answer(READS, ENTER)
    terminal.shows("choose at least one")
    terminal.answer(READS, DOWN + SPACE + ENTER)
    terminal.answer(WRITES, "CLICK FP32[1]" + ENTER)
    terminal.shows("* click: FEATURES -> CLICK")
    terminal.answer(NAME, "buy" + ENTER)
    terminal.answer(RUNS, INTERRUPT)
    terminal.shows("p.draft.yml: has what you told; run the same command to go on")
    terminal.process.expect(pexpect.EOF)
    terminal = new(template, tmp_path, size)
    terminal.shows("Continues with the answers in p.draft.yml")
    terminal.answer(NAME, "buy" + ENTER)
    terminal.answer(RUNS, ONNX)
    terminal.answer(READS, DOWN + SPACE + ENTER)
    terminal.answer(WRITES, "BUY FP32[1]" + ENTER)
    terminal.shows("|\\")
    terminal.answer(NAME, "rank" + ENTER)
    terminal.answer(RUNS, PYTHON)
    terminal.answer(READS, DOWN * 2 + SPACE + DOWN + SPACE + ENTER)
    terminal.answer(WRITES, "SCORE FP32[1]" + ENTER)
    terminal.shows("* rank: CLICK, BUY -> SCORE")
    terminal.answer(NAME, ENTER)
    for line in FAN.splitlines():
        terminal.shows(line)
    made(terminal)
    assert [path.name for path in tmp_path.iterdir()] == ["p"]
    printed = succeed(Project(tmp_path / "p").make("infer", HTTP_PORT=NOWHERE))
    assert "SCORE" in printed


@pytest.mark.slow
def test_models_that_are_there_go_into_the_project(template: Path, tmp_path: Path) -> None:
    write_onnx(tmp_path / "m.onnx")
    terminal = new(template, tmp_path)
    terminal.answer(NAME, "times" + ENTER)
    terminal.answer(RUNS, FILE)
    terminal.answer(PATH, "x.onnx" + ENTER)
    terminal.shows("x.onnx is not there; name an .onnx")
    terminal.answer(PATH, CLEAR + "m.onnx" + ENTER)
    terminal.answer("Its input pixels in a request", ENTER)
    terminal.answer(WRITES, ENTER)
    terminal.answer(NAME, "again" + ENTER)
    terminal.answer(RUNS, UP + ENTER)
    terminal.shows("the model of times again")
    terminal.answer("Its input pixels FP32[4]: which tensor", DOWN + ENTER)
    terminal.answer(WRITES, ENTER)
    terminal.answer(NAME, ENTER)
    terminal.shows("again =times: pixels = score -> score = score_2 FP32[4]")
    made(terminal)
    project = Project(tmp_path / "p")
    assert (project / "models/times/1/model.onnx").read_bytes() == (
        tmp_path / "m.onnx"
    ).read_bytes()
    printed = succeed(project.make("infer", HTTP_PORT=NOWHERE))
    assert "score_2" in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    "key",
    [
        pytest.param(INTERRUPT, id="Ctrl-C"),
        pytest.param(END, id="Ctrl-D", marks=pytest.mark.slow),
    ],
)
def test_what_was_told_outlives_an_end_at_any_question(
    template: Path, tmp_path: Path, key: str
) -> None:
    (tmp_path / "folder").mkdir()
    terminal = Terminal(
        ["new", ".", "--template", "/nowhere"], tmp_path / "folder", program=COMMAND
    )
    terminal.answer(NAME, ENTER)
    terminal.shows("write a name, like classify")
    terminal.answer(NAME, "one" + ENTER)
    terminal.answer(RUNS, FILE)
    terminal.answer(PATH, "~nobody/x" + ENTER)
    terminal.shows("can't be read")
    terminal.answer(PATH, ESCAPE)
    terminal.answer(RUNS, UP + ENTER)
    terminal.answer(BRINGS, "X FP32[4]" + ENTER)
    terminal.answer(WRITES, "Y FP32[4]" + ENTER)
    terminal.answer(NAME, key)
    terminal.shows("folder.draft.yml: has what you told; run the same command to go on")
    terminal.process.expect(pexpect.EOF)
    terminal = Terminal(
        ["new", ".", "--template", "/nowhere"], tmp_path / "folder", program=COMMAND
    )
    terminal.shows("Continues with the answers")
    terminal.answer(NAME, ENTER)
    terminal.answer(IS_IT, ENTER)
    terminal.shows("/nowhere: Local template must be a directory.; no project was made")
    terminal.process.expect(pexpect.EOF)
    assert "Traceback" not in terminal.process.before
    terminal = Terminal(
        ["new", ".", "--template", str(template)], tmp_path / "folder", program=COMMAND
    )
    terminal.answer(NAME, ENTER)
    terminal.answer(IS_IT, ENTER)
    terminal.answer(COPIERS[0], INTERRUPT)
    terminal.process.expect("folder.draft.yml: has what you told; run the same command to go on")
    assert "AnswersMap" not in terminal.process.before


@pytest.mark.slow
def test_a_step_is_added_to_a_project(generate: Generate) -> None:
    project = generate()
    before = (project / "pipeline.yml").read_text()
    terminal = Terminal(["add-step"], project.path, program=COMMAND)
    terminal.shows("* label: LOGITS -> LABEL, SCORE")
    terminal.answer(NAME, "shout" + ENTER)
    terminal.answer(RUNS, PYTHON)
    terminal.answer(READS, DOWN * 3 + SPACE + ENTER)
    terminal.answer(WRITES, "LABEL STRING[1]" + ENTER)
    terminal.shows("drop STRING[1]; LABEL has its type")
    terminal.answer(WRITES, CLEAR + "LOUD STRING[1]" + ENTER)
    terminal.shows("pipeline.yml has step shout. Next: make infer, which applies it")
    terminal.shows(
        "The ensemble no longer returns LABEL; to keep it, write outputs: [LABEL, SCORE, LOUD]"
    )
    terminal.process.expect(pexpect.EOF)
    after = (project / "pipeline.yml").read_text()
    assert [line for line in before.splitlines() if line not in after.splitlines()] == []
    assert yaml.safe_load(after)["steps"][-1]["inputs"] == ["LABEL"]
    assert "nothing found" in project.run(str(COMMAND), "check", "pipeline.yml").stderr


@pytest.mark.slow
def test_refusals_are_one_line(template: Path, tmp_path: Path) -> None:
    (tmp_path / "full" / "folder").mkdir(parents=True)
    for command, said in (
        (["new", "p"], "needs a terminal; write the pipeline as text: copier copy --data flow="),
        (["new", "full"], "full: exists already; name a new folder"),
        (["new", "no/p"], "no: is not a folder that you can write to; make it first"),
        (["new", "x" * 300], "File name too long; name a new folder"),
        (["new", "p", "--data", "x"], "--data x: write QUESTION=ANSWER"),
        (["new", "p", "--data", "extras=[a"], "--data extras=[a: write QUESTION=ANSWER"),
        (["add-step"], "pipeline.yml: No such file or directory; go to the folder of a project"),
    ):
        done = run(str(COMMAND), *command, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
