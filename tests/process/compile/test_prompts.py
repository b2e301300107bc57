"""Copier's questions, answered at a real terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest
import yaml
from support import COPIER, ROOT, Generate, Project, run, succeed
from terminal import ACCEPT, BACKSPACE, DOWN, ENTER, SIZES, UP, Terminal

from triton_ensemble.facts import catalog

FIRST = ["Which pipeline do you start from", "What is the project's name"]
COMMON = [
    *FIRST,
    "What should batching aim at",
    "How many GPUs",
    "What else should the project include",
    "Which CI",
    "Show all settings?",
]
OWN = ["How do your steps connect", "Which steps are there?"]
SETTINGS = [
    "By which name do clients",
    "Which Triton release",
    "How many rows may a request",
    "How many microseconds",
]
MY_OWN = UP + ENTER  # the last choice
ERROR = "Validation error for question 'flow': "


@pytest.mark.slow
@SIZES
def test_enter_alone_makes_the_default_project(
    template: Path, tmp_path: Path, generate: Generate, size: tuple[int, int]
) -> None:
    terminal = Terminal(["copy", str(template), "p"], tmp_path, size)
    for question in COMMON:
        terminal.answer(question)
    terminal.ends("image-classification")
    assert terminal.asked == 7
    made, wanted = Project(tmp_path / "p").contents(), generate().contents()
    assert made == wanted


FAN = """\
features python: EVENT STRING[1] -> FEATURES FP32[32]
click onnx: FEATURES -> CLICK FP32[1]
buy onnxruntime: FEATURES -> BUY FP32[1]
rank python: CLICK, BUY -> SCORE FP32[1]"""


@pytest.mark.slow
@SIZES
def test_a_fan_is_typed_and_corrected(
    template: Path, tmp_path: Path, size: tuple[int, int]
) -> None:
    terminal = Terminal(["copy", str(template), "p"], tmp_path, size)
    terminal.answer(COMMON[0], MY_OWN)
    for question in [*COMMON[1:], OWN[0]]:
        terminal.answer(question)
    terminal.answer(OWN[1], BACKSPACE * len(catalog.table("prompts")["start"]["other"]))
    terminal.send(FAN + ACCEPT)
    terminal.shows(f"{ERROR}line 2: did you mean onnxruntime?")
    terminal.send(UP * 2 + "\x01" + "\x1b[C" * len("click onnx") + "runtime" + ACCEPT)
    terminal.ends("my-pipeline")
    assert terminal.asked <= 10
    pipeline = yaml.safe_load((tmp_path / "p/pipeline.yml").read_text())
    assert [step["name"] for step in pipeline["steps"]] == ["features", "click", "buy", "rank"]
    assert pipeline["tensors"]["FEATURES"] == "FP32[32]"
    saved = yaml.safe_load((tmp_path / "p/.copier-answers.yml").read_text())
    assert not saved.keys() & {"flow", "topology", "batching_goal", "show_all"}
    assert {"steps", "tensors", "max_batch_size", "triton_release"} <= saved.keys()


@pytest.mark.parametrize(
    ("topology", "steps"), [pytest.param(DOWN + ENTER, 3, marks=pytest.mark.slow), (UP + ENTER, 4)]
)
def test_the_chosen_topology_is_where_the_text_starts(
    template: Path, tmp_path: Path, topology: str, steps: int
) -> None:
    """The cursor is on the last choice. It goes round."""
    terminal = Terminal(["copy", "--data", "project_name=predict", str(template), "p"], tmp_path)
    terminal.answer(COMMON[0], MY_OWN)
    for question in COMMON[2:]:
        terminal.answer(question)
    terminal.answer(OWN[0], topology)
    terminal.answer(OWN[1], ACCEPT)
    terminal.ends("predict")
    pipeline = yaml.safe_load((tmp_path / "p/pipeline.yml").read_text())
    assert len(pipeline["steps"]) == steps
    assert pipeline["ensemble_name"] == "predict_pipeline"  # a step has the project's name


@pytest.mark.slow
def test_all_settings_are_asked_and_what_an_example_can_not_do_is_said(
    template: Path, tmp_path: Path
) -> None:
    terminal = Terminal(["copy", str(template), "p"], tmp_path)
    for question in COMMON[:-1]:
        terminal.answer(question)
    terminal.answer(COMMON[-1], "y")
    terminal.answer(SETTINGS[0], BACKSPACE * 30 + "classify" + ENTER)
    terminal.shows("write another: a step has it")
    terminal.send(BACKSPACE * 8 + "digits" + ENTER)
    terminal.answer(SETTINGS[1])
    terminal.answer(SETTINGS[2], BACKSPACE + "0" + ENTER)
    terminal.shows("write 1 or more; its")
    terminal.send(BACKSPACE + "4" + ENTER)
    terminal.answer(SETTINGS[3])
    terminal.ends("image-classification")
    pipeline = yaml.safe_load((tmp_path / "p/pipeline.yml").read_text())
    assert (pipeline["ensemble_name"], pipeline["max_batch_size"]) == ("digits", 4)


@pytest.mark.parametrize(
    ("keys", "rows", "delay"),
    [pytest.param(UP + ENTER, 8, 0, marks=pytest.mark.slow), (DOWN + ENTER, 32, 1000)],
)
def test_batching_is_a_goal(
    template: Path, tmp_path: Path, keys: str, rows: int, delay: int
) -> None:
    options = ["--data", "gpu_count=1", "--data", "ci=none"]
    terminal = Terminal(["copy", *options, str(template), "p"], tmp_path)
    terminal.answer(COMMON[0])
    terminal.answer(COMMON[1])
    terminal.answer(COMMON[2], keys)
    terminal.answer(COMMON[4])
    terminal.answer(COMMON[6])
    terminal.ends("image-classification")
    pipeline = yaml.safe_load((tmp_path / "p/pipeline.yml").read_text())
    assert (pipeline["max_batch_size"], pipeline["max_queue_delay_us"]) == (rows, delay)


@pytest.mark.slow
def test_numbers_of_ones_own(template: Path, tmp_path: Path) -> None:
    terminal = Terminal(["copy", str(template), "p"], tmp_path)
    for question in COMMON[:2]:
        terminal.answer(question)
    terminal.answer(COMMON[2], DOWN * 2 + ENTER)
    for question in COMMON[3:]:
        terminal.answer(question)
    terminal.answer(SETTINGS[2], BACKSPACE + "16" + ENTER)
    terminal.answer(SETTINGS[3])
    terminal.ends("image-classification")
    assert "max_batch_size: 16 #" in (tmp_path / "p/pipeline.yml").read_text()


def copier_yml() -> dict[str, Any]:
    questions: dict[str, Any] = yaml.safe_load((ROOT / "copier.yml").read_text())
    return {name: asked for name, asked in questions.items() if not name.startswith("_")}


def test_questions_and_choices_fit_80_columns() -> None:
    """Three columns before them are those of a microphone and a space, or of the cursor."""
    for asked in copier_yml().values():
        if "help" in asked and asked.get("ask") is not False:
            first, *others = asked["help"].splitlines()
            assert [t for t in [first, *asked.get("choices", ())] if len(t) > 77] == []
            assert [line for line in others if len(line) > 80] == []
    offered = [row["help"] for row in catalog.table("extras").values()]
    offered += catalog.table("prompts")["ci"]
    assert [text for text in offered if len(text) > 77] == []


def test_the_choices_of_batching_say_their_numbers() -> None:
    numbers = catalog.table("prompts")["batching"]
    choices = copier_yml()["batching_goal"]["choices"]
    assert [*choices.values()] == [*numbers]
    for text, goal in choices.items():
        if goal not in ("own", "latency"):
            assert f"{numbers[goal]['max_queue_delay_us'] / 1000:g} ms" in text
        if goal != "own":
            assert f"up to {numbers[goal]['max_batch_size']} rows" in text


@pytest.mark.slow
def test_an_update_asks_for_no_text_and_enter_alone_changes_nothing(
    git_template: Path, tmp_path: Path
) -> None:
    flow = "one python: A FP32[1] -> B FP32[1]\noutputs: B"
    project = Project(tmp_path / "p")
    command = (str(COPIER), "copy", "--defaults", "--data", f"flow={flow}", str(git_template), "p")
    succeed(run(*command, cwd=tmp_path))
    project.commit()
    terminal = Terminal(["update"], project.path)
    for question in [*COMMON[:2], *COMMON[3:6]]:
        terminal.answer(question)
    terminal.process.expect(pexpect.EOF)
    assert project.changes() == ""
    refused = project.run(str(COPIER), "update", "--defaults", "--data", f"flow={flow}")
    assert "flow: makes tensors and steps, which are there already" in refused.stderr
