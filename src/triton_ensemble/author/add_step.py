"""Add a step to the pipeline.yml of this project: answer questions about its name, backend, inputs and outputs.

Comments, order and layout of the file stay. If you have a model (an .onnx or TorchScript file, or a folder
of a model repository), it is copied to models/. The next command applies the change. Esc goes back one
question, Ctrl-C changes nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_ensemble.author.draft import Draft, accept_answers
from triton_ensemble.author.new import check_packages
from triton_ensemble.check.pipeline.check import read_saved_answers
from triton_ensemble.compile.file import replace
from triton_ensemble.compile.rules import rules
from triton_ensemble.facts.answers import UnreadableAnswers, read_answers
from triton_ensemble.facts.project import ProjectError

PIPELINE = Path("pipeline.yml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no arguments: the command asks for everything."""


def run(arguments: argparse.Namespace) -> int:
    """Ask, and write the step into pipeline.yml. Return 130 after an interruption, without writing anything."""
    check_packages()
    from triton_ensemble.author.copying import copy_files
    from triton_ensemble.author.prompt import TENSORS, Back, check_terminal
    from triton_ensemble.author.session import ask_step, show
    from triton_ensemble.author.step_questions import add_described_step, files_of
    from triton_ensemble.author.written import add_step_text

    draft = _project()
    check_terminal(f"write the step into {PIPELINE}, and run: triton-ensemble check {PIPELINE}")
    print(f"Esc goes back, Ctrl-C changes nothing.\n{TENSORS}\n")
    show(draft)
    try:
        said = ask_step(draft, {})
    except Back:
        return 130
    if not said["name"]:
        return 0
    told = add_described_step(draft, said)
    show(told)
    accept_answers(told.answers, whole=True)
    copy_files(files_of(draft, said), Path("models", said["name"]))
    text = PIPELINE.read_bytes().decode()
    written = add_step_text(text.replace("\r\n", "\n"), told)
    replace(PIPELINE, written.replace("\n", "\r\n") if "\r\n" in text else written)
    print(f"{PIPELINE} has step {said['name']}. Next: make infer, which applies it")
    if gone := [name for name in _list_returned(draft) if name not in _list_returned(told)]:
        kept = ", ".join(dict.fromkeys((*_list_returned(draft), *_list_returned(told))))
        print(
            f"The ensemble no longer returns {', '.join(gone)}; to keep it, write outputs: [{kept}]"
        )
    return 0


def _project() -> Draft:
    """Return the pipeline of the project in this folder, or raise ProjectError if there is none."""
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
    return Draft(accept_answers(read_saved_answers(PIPELINE, rules()) | given))


def _list_returned(draft: Draft) -> list[str]:
    """Return the names of the ensemble's outputs."""
    return [each["name"] for each in rules().answer(draft.answers)["graph"]["outputs"]]
