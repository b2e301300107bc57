"""Make a project for your own pipeline: answer questions step by step and watch the drawing of the pipeline.

For each step you give a name, a backend, inputs and outputs. If you have a model (an .onnx or TorchScript
file, or a folder of a model repository), its tensors are read from it and its files are copied into the
project. Esc goes back one question. Ctrl-C saves your answers in DIR.draft.yml. Run the same command again
to go on. Then Copier asks the other questions of the template and makes the project. The template's code
does not run.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from triton_ensemble.author.draft import Draft, accept_answers
from triton_ensemble.facts.project import ProjectError

ASKS = ("questionary", "jinja2_ansible_filters", "ruamel.yaml")  # with Copier, the extra `new`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `triton-ensemble new`."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="the project's folder")
    parser.add_argument(
        "--template",
        metavar="ADDRESS",
        help="the template's address; default: the one that this package was installed from",
    )
    parser.add_argument("--vcs-ref", metavar="REF", help="the template's version")
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="QUESTION=ANSWER",
        help="an answer to a question of the template, as for copier; repeat it for more answers",
    )


def check_packages(*more: str) -> None:
    """Raise ProjectError if a package is missing that the guided commands need."""
    try:
        for package in (*ASKS, *more):
            importlib.import_module(package)
    except ModuleNotFoundError as error:
        what = f"{error.name} is missing, which new and add-step need"
        raise ProjectError(f"{what}; run: pip install 'triton-ensemble[new]'") from error


def run(arguments: argparse.Namespace) -> int:
    """Ask, and make the project. Return 130 after an interruption, with the answers saved."""
    check_packages("copier")
    from triton_ensemble.author.copying import copy_project
    from triton_ensemble.author.prompt import KEYS, TENSORS, check_terminal
    from triton_ensemble.author.session import review_pipeline

    folder = _free(arguments.directory)
    told = _answers(arguments.data)
    check_terminal("write the pipeline as text: copier copy --data flow=..., see docs/flow.md")
    saved = folder.with_name(f"{folder.name}.draft.yml")
    try:
        draft = _draft(saved, told)
        print(f"{KEYS}\n{TENSORS}\n")
        draft = review_pipeline(draft, lambda draft: draft.save(saved))
        copy_project(draft, folder, arguments.template, arguments.vcs_ref)
    except KeyboardInterrupt:
        if saved.exists():
            print(f"\n{saved}: has what you told; run the same command to go on", file=sys.stderr)
        return 130
    saved.unlink(missing_ok=True)
    return 0


def _free(folder: Path) -> Path:
    """Return the folder of a project to be, or raise ProjectError if a project can't be made there."""
    if not folder.name:
        folder = folder.absolute()
    try:
        if folder.is_symlink() or (
            folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
        ):
            raise ProjectError(f"{folder}: exists already; name a new folder")
        if not os.access(folder.parent, os.W_OK):
            raise ProjectError(
                f"{folder.parent}: is not a folder that you can write to; make it first"
            )
    except OSError as error:
        raise ProjectError(f"{folder}: {error.strerror}; name a new folder") from error
    return folder


def _draft(saved: Path, told: dict[str, Any]) -> Draft:
    """Return what an earlier session has saved, else the beginning of a pipeline."""
    if not saved.exists():
        return Draft(accept_answers({"starting_pipeline": "my-own", **told}))
    draft = Draft.load(saved)
    draft = replace(draft, answers=accept_answers({**draft.answers, **told}))
    print(f"Continues with the answers in {saved}; remove it to start again.")
    return draft


def _answers(given: list[str]) -> dict[str, Any]:
    """Return answers of the command line, lists as YAML.

    Raise ProjectError for a text that is not an answer.
    """
    answers: dict[str, Any] = {}
    for text in given:
        name, separator, answer = text.partition("=")
        try:
            answers[name] = yaml.safe_load(answer) if answer.startswith("[") else answer
        except yaml.YAMLError:
            separator = ""
        if not separator:
            raise ProjectError(f"--data {text}: write QUESTION=ANSWER")
    return answers
