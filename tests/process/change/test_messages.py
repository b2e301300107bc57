"""The messages of Copier after a copy and after an update: what is next, as far as it is true."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import COPIER, Project, run, step, succeed

TENSORS = {"IMAGE": "FP32[4]", "LABEL": "FP32[4]"}
OWN = {"type": "FP32", "dims": [4]}  # a model has it, and no tensor of the pipeline
LABEL = step("label", ["IMAGE"], ["LABEL"])


def copied(template: Path, folder: Path, **answers: Any) -> str:
    """Return what `copier copy` prints on stderr behind the list of files."""
    (folder / "answers.yml").write_text(yaml.safe_dump(answers))
    command = ["copy", "--defaults", "--data-file", "answers.yml", str(template), "p"]
    made = run(str(COPIER), *command, cwd=folder, NO_COLOR="1")
    succeed(made)
    return made.stderr.partition(" is ready: ")[2]


def test_after_a_copy_of_the_example_nothing_is_a_stub(template: Path, tmp_path: Path) -> None:
    said = copied(template, tmp_path)
    for command in ("cd p\n", "git init && git add", "make infer", "make test"):
        assert f"  {command}" in said
    assert "stub" not in said
    assert [line for line in said.splitlines() if len(line) > 80] == []


@pytest.mark.slow
def test_a_relative_path_of_the_template_is_named(template: Path, tmp_path: Path) -> None:
    """The first update would look for it from the project's own folder."""
    path = os.path.relpath(template, tmp_path)
    note = f"\n\n`make update` can't find the template, because {path} is a relative path.\n"
    said = copied(Path(path), tmp_path)
    assert (
        f"{note}Write its URL or absolute path as `_src_path` into .copier-answers.yml, and commit.\n"
        in said
    )
    (tmp_path / "q").mkdir()
    assert "_src_path" not in copied(template, tmp_path / "q")


def test_after_a_copy_stubs_are_listed(template: Path, tmp_path: Path) -> None:
    said = copied(template, tmp_path, starting_pipeline="my-own")
    listed = said.partition("until you fill them in:\n")[2].partition("\n\n")[0].split()
    assert listed == ["models/predict.py", "steps/prepare.py"]
    assert all((tmp_path / "p" / path).exists() for path in listed)


@pytest.mark.parametrize("release", ["26.05", "26.11"])
def test_a_fault_of_the_release_is_named_if_the_pipeline_would_meet_it(
    template: Path, tmp_path: Path, release: str
) -> None:
    caller = step("caller", ["IMAGE"], ["LABEL"], calls=["other"])
    steps = [caller, step("other", {"X": OWN}, {"Y": OWN})]
    said = copied(template, tmp_path, tensors=TENSORS, steps=steps, triton_release=release)
    fault = (
        "\nStep caller calls models, and Triton 26.05 may crash under concurrent calls\n"
        '(server#8882): write `triton_release: "26.11"` or later into pipeline.yml.\n'
    )
    assert (fault in said) is (release == "26.05")


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [0, 1])
def test_torch_for_a_cpu_is_a_choice(template: Path, tmp_path: Path, gpus: int) -> None:
    """Before `make infer` downloads 5 GB."""
    net = step("net", ["IMAGE"], ["LABEL"], "pytorch")
    said = copied(template, tmp_path, tensors=TENSORS, steps=[net], gpu_count=gpus)
    assert ("  make lock     locks PyTorch" in said) is (gpus == 0)
    assert [line for line in said.splitlines() if len(line) > 80] == []


def test_a_step_beside_the_example_is_a_stub(template: Path, tmp_path: Path) -> None:
    text = (template / "examples/image-classification/pipeline.yml").read_text()
    answers = yaml.safe_load(text)
    answers["tensors"]["UPPER"] = "STRING[1]"
    answers["steps"].append(step("upper", ["LABEL"], ["UPPER"]))
    said = copied(template, tmp_path, starting_pipeline="image-classification", **answers)
    assert "fill them in:\n  steps/upper.py\n\n" in said


def updated(git_template: Path, folder: Path, **answers: Any) -> str:
    """Return what `copier update` says about other answers than those of one step."""
    first = {"tensors": TENSORS, "steps": [LABEL]}
    copied(git_template, folder, **first)
    project = Project(folder / "p")
    project.commit()
    (project / "pipeline.yml").write_text(yaml.safe_dump(first | answers))
    project.commit()
    command = ["update", "--defaults", "--data-file", "pipeline.yml"]
    made = project.run(str(COPIER), *command, NO_COLOR="1")
    succeed(made)
    return made.stderr


@pytest.mark.slow
def test_after_an_update_that_adds_a_step(git_template: Path, tmp_path: Path) -> None:
    tensors = TENSORS | {"HINT": "FP32[1]", "SCORE": "FP32[1]"}
    steps = [LABEL, step("score", ["LABEL", "HINT"], ["SCORE"])]
    said = updated(git_template, tmp_path, tensors=tensors, steps=steps)
    assert said.strip().endswith(
        "The ensemble now takes: HINT\n"
        "The ensemble now returns: SCORE\n"
        "It no longer returns: LABEL\n"
        "LABEL is now read by score. To return it as well, write into pipeline.yml:\n"
        "  outputs: [SCORE, LABEL]"
    )


@pytest.mark.slow
def test_after_an_update_that_changes_no_tensor_nothing_is_said(
    git_template: Path, tmp_path: Path
) -> None:
    said = updated(git_template, tmp_path, max_batch_size=4)
    for word in ("ensemble", "stub", "No longer", "New"):
        assert word not in said


@pytest.mark.slow
def test_what_outputs_keeps_is_kept(git_template: Path, tmp_path: Path) -> None:
    tensors = TENSORS | {"SCORE": "FP32[1]"}
    steps = [LABEL, step("score", ["LABEL"], ["SCORE"])]
    said = updated(git_template, tmp_path, tensors=tensors, steps=steps, outputs=["SCORE", "LABEL"])
    assert "The ensemble now returns: SCORE\n" in said
    assert "no longer" not in said
