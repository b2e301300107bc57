"""Add a step to the pipeline.yml of this project: answer questions about its name, backend, inputs and outputs.

Comments, order and layout of the file stay. If you have a model (an .onnx or TorchScript file, or a folder
of a model repository), it is copied to models/. The next command applies the change. Esc goes back one
question, Ctrl-C changes nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_ensemble.answers import UnreadableAnswers, read_answers
from triton_ensemble.check.pipeline.check import of_project
from triton_ensemble.guide.draft import Draft, accepted
from triton_ensemble.guide.new import check_packages
from triton_ensemble.pipeline.file import replace
from triton_ensemble.pipeline.rules import rules
from triton_ensemble.project import ProjectError

PIPELINE = Path("pipeline.yml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no arguments: the command asks for everything."""


def run(arguments: argparse.Namespace) -> int:
    """Ask, and write the step into pipeline.yml; return 130 after an interruption, without writing anything."""
    check_packages()
    from triton_ensemble.guide.copying import copy_files
    from triton_ensemble.guide.prompt import TENSORS, Back, check_terminal
    from triton_ensemble.guide.session import show, told_step
    from triton_ensemble.guide.step_questions import files_of, with_told
    from triton_ensemble.guide.written import with_step

    draft = _project()
    check_terminal(f"write the step into {PIPELINE}, and run: triton-ensemble check {PIPELINE}")
    print(f"Esc goes back, Ctrl-C changes nothing.\n{TENSORS}\n")
    show(draft)
    try:
        said = told_step(draft, {})
    except Back:
        return 130
    if not said["name"]:
        return 0
    told = with_told(draft, said)
    show(told)
    accepted(told.answers, whole=True)
    copy_files(files_of(draft, said), Path("models", said["name"]))
    text = PIPELINE.read_bytes().decode()
    written = with_step(text.replace("\r\n", "\n"), told)
    replace(PIPELINE, written.replace("\n", "\r\n") if "\r\n" in text else written)
    print(f"{PIPELINE} has step {said['name']}. Next: make infer, which applies it")
    if gone := [name for name in _returned(draft) if name not in _returned(told)]:
        kept = ", ".join(dict.fromkeys((*_returned(draft), *_returned(told))))
        print(
            f"The ensemble no longer returns {', '.join(gone)}; to keep it, write outputs: [{kept}]"
        )
    return 0


def _project() -> Draft:
    """Return the pipeline of the project in this folder; ProjectError where there is none."""
    try:
        given, _ = read_answers(PIPELINE)
    except UnreadableAnswers as error:
        raise ProjectError(f"{PIPELINE}:{error}") from error
    except OSError as error:
        raise ProjectError(
            f"{PIPELINE}: {error.strerror}; go to the folder of a project"
        ) from error
    for part in ("tensors", "steps"):
        if part not in given:
            what = f"has no {part}, to which a step could be added"
            raise ProjectError(f"{PIPELINE}: {what}; copy those of .copier-answers.yml into it")
    if isinstance(given.get("outputs"), dict):
        what = "outputs is a mapping, which add-step can't change"
        raise ProjectError(f"{PIPELINE}: {what}; write the step by hand, or outputs as a list")
    return Draft(accepted(of_project(PIPELINE, rules()) | given))


def _returned(draft: Draft) -> list[str]:
    """Return the names of the ensemble's outputs."""
    return [each["name"] for each in rules().answered(draft.answers)["graph"]["outputs"]]
