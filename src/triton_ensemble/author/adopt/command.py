"""Print a pipeline.yml for an existing model repository, from which the template generates equal configs.

stderr says which files to copy as well. --into copies them. If Triton would refuse the repository, so does
this command: it prints one line on stderr and exits with 1. docs/adopt.md says more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from triton_ensemble.author.adopt import given
from triton_ensemble.author.adopt.answers import answers_of
from triton_ensemble.author.adopt.calls import find_calls
from triton_ensemble.author.adopt.declared_by_code import complete_by_code, refuse_failed
from triton_ensemble.author.adopt.ensembles import Models, choose_model, ensemble_of
from triton_ensemble.author.adopt.files import copy_files, needs_folder
from triton_ensemble.author.adopt.notes import (
    name_computed,
    name_left_out,
    notes_on,
    to_copy,
)
from triton_ensemble.author.adopt.placeholders import fill, refuse_unread
from triton_ensemble.author.adopt.refusal import (
    Refused,
    errors,
    list_unread_pipelines,
    refuse_answers,
    refuse_first,
    refuse_namespaces,
    warnings,
)
from triton_ensemble.author.adopt.written import pipeline_yml
from triton_ensemble.check.repository import Repository
from triton_ensemble.check.rules.engine import findings_in
from triton_ensemble.facts.answers import Answers
from triton_ensemble.facts.config import Model
from triton_ensemble.facts.terminal import escape_line


@dataclass(frozen=True)
class Adopted:
    """The result of adopting an ensemble of a repository."""

    answers: Answers
    models: list[Model]  # whose files the project keeps
    notes: list[str]  # on what the answers do not have


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `triton-ensemble adopt`."""
    parser.add_argument("repository", type=Path, metavar="REPOSITORY")
    parser.add_argument(
        "--ensemble",
        default="",
        metavar="NAME",
        help="the ensemble to adopt, or the model if there is no ensemble",
    )
    parser.add_argument(
        "--into", type=Path, metavar="DIR", help="copy the models' files to models/ of this project"
    )
    parser.add_argument(
        "--set",
        type=_read_value,
        action="append",
        default=[],
        dest="values",
        metavar="NAME=VALUE",
        help="the value of ${NAME} in the configs",
    )
    parser.add_argument(
        "--run-code",
        action="store_true",
        help="call auto_complete_config of Python models whose configs declare no inputs or no outputs",
    )


def _read_value(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} has no value; write NAME=VALUE")
    return name, value


def run(arguments: argparse.Namespace) -> int:
    """Print pipeline.yml on stdout, and on stderr what else to know, or why Triton refuses the repository."""
    try:
        values, may_run = dict(arguments.values), arguments.run_code
        adopted = adopt(arguments.repository, arguments.ensemble, values, may_run=may_run)
        if arguments.into:
            copy_files(adopted.models, arguments.into)
    except (Refused, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    copies = [] if arguments.into else [*to_copy(adopted.models)]
    notes = [escape_line(line) for line in (*copies, *adopted.notes)]
    origin = f"From the model repository {arguments.repository.resolve().name}, by triton-ensemble adopt."
    print(pipeline_yml(adopted.answers, [escape_line(origin), *notes]), end="")
    print("\n".join(notes), file=sys.stderr)
    return 0


def adopt(
    folder: Path,
    wanted: str = "",
    values: Mapping[str, str] | None = None,
    *,
    may_run: bool = False,
) -> Adopted:
    """Adopt an ensemble of a repository, or a Python model that calls others.

    Leave out `wanted` if only one ensemble is not part of another. The `values` are those of placeholders in configs. The
    models' code runs only if it `may_run`. Refused if Triton or the template refuses the model.
    """
    if not folder.is_dir():
        raise Refused(str(folder), "no such directory", "name a model repository")
    repository = Repository.read(folder)
    repository.folders.pop(".git", None)  # of the checkout, and of none that Triton is given
    values = values or {}
    fill(repository.folders, values)
    completed = given.complete(repository.models)
    failed = complete_by_code(repository.models, may_run)
    findings = findings_in(repository)
    faults = errors(findings)
    refuse_unread(repository, values, faults, list_unread_pipelines(repository, wanted))
    calls = find_calls(repository)
    ensemble = choose_model(repository.models, folder, wanted, calls.named, calls.computed)
    if not ensemble.is_ensemble:
        refuse_first(faults, [ensemble.name])
        refuse_failed(failed, [ensemble.name])
        caller, ensemble = ensemble.name, ensemble_of(ensemble, repository.models)
        completed[ensemble.name] = [f"{ensemble.name}: is new, an ensemble whose step is {caller}"]
    faulty = {fault.file.parent.name for fault in faults}
    below, called = calls.add_called(ensemble, repository.models, faulty)
    models: Models = {ensemble.name: ensemble, **below}
    refuse_unread(repository, values, faults, calls.list_missing(models))
    refuse_first(faults, [name for name, model in models.items() if not model.is_ensemble])
    refuse_first(faults, models)
    refuse_failed(failed, models)
    refuse_namespaces(models.values())
    answers = answers_of(ensemble, models, called)
    refuse_answers(answers, ensemble, models)
    notes = [line for name in models for line in completed[name]]
    notes += [*warnings(findings, models), *notes_on(folder, models)]
    notes += name_computed(models, calls, called)
    notes += name_left_out(repository, models, faults, calls)
    return Adopted(answers, [model for model in models.values() if _has_files(model)], notes)


def _has_files(model: Model) -> bool:
    return not model.is_ensemble or needs_folder(model)
