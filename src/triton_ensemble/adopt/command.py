"""Print the pipeline.yml of an existing model repository: the template generates equal configs from it.

It copies nothing: stderr says for each model what to copy by hand. A repository that Triton would
refuse is refused: one line on stderr, exit status 1. docs/adopt.md says more.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from triton_ensemble.adopt.answers import answers_of
from triton_ensemble.adopt.ensembles import Models, chosen, models_below
from triton_ensemble.adopt.fields import backend_of
from triton_ensemble.adopt.refusal import (
    Refused,
    refuse_answers,
    refuse_first,
    refuse_namespaces,
    refused_by_triton,
)
from triton_ensemble.adopt.written import pipeline_yml
from triton_ensemble.config import Model, read_models
from triton_ensemble.pipeline.rules import Answers, rules

LISTED = 6  # files that a line names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument("repository", type=Path, metavar="REPOSITORY")
    parser.add_argument("--ensemble", default="", metavar="NAME", help="the one to adopt")


def run(arguments: argparse.Namespace) -> int:
    """Print pipeline.yml on stdout, and on stderr what to copy by hand, or why Triton refuses it."""
    try:
        answers, copies = adopt(arguments.repository, arguments.ensemble)
    except (Refused, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    name = arguments.repository.resolve().name
    comments = [f"From the model repository {name}, by triton-ensemble adopt.", "Copy by hand:"]
    print(pipeline_yml(answers, [*comments, *copies]), end="")
    print("\n".join(copies), file=sys.stderr)
    return 0


def adopt(repository: Path, wanted: str = "") -> tuple[Answers, list[str]]:
    """Return the answers for an ensemble of a repository, and for each of its models a line on what to copy.

    `wanted` may be left out where one ensemble is in no other. Refused where Triton or the template
    refuses it.
    """
    if not repository.is_dir():
        raise Refused(str(repository), "no such directory", "name a model repository")
    folders, wrong = read_models(repository), refused_by_triton(repository)
    models: Models = {name: model for name, model in folders.items() if isinstance(model, Model)}
    ensembles = {name for name, model in models.items() if model.is_ensemble}
    refuse_first(wrong, folders.keys() - ensembles)
    ensemble = chosen(models, repository, wanted)
    below = models_below(ensemble, models)
    used = {ensemble.name: ensemble, **below}
    refuse_first(wrong, used)
    refuse_namespaces(used.values())
    answers = answers_of(ensemble, models)
    refuse_answers(answers, ensemble, used)
    return answers, [to_copy(model) for model in below.values()]


def to_copy(model: Model) -> str:
    """Return a line on what of a model the generated project can't make."""
    backend = backend_of(model.config)
    if backend == "ensemble":
        return f"{model.name}: nothing, the configs say it all"
    files = [
        path.relative_to(model.folder).as_posix()
        for path in sorted(model.folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path != model.path
    ]
    parts = []
    if backend == "python":
        code = [file for file in files if "/" in file]
        files = [file for file in files if file not in code]
        module = rules().macro("names", "identifier")(model.name)
        parts.append(f"{_listed(code) or 'model.py'} to steps/{module}/")
    if files or backend != "python":
        parts.append(f"{_listed(files) or 'the model file'} to model_repository/{model.name}/")
    return f"{model.name}: copy {', '.join(parts)}"


def _listed(files: list[str]) -> str:
    more = f" and {len(files) - LISTED} more" if len(files) > LISTED else ""
    return ", ".join(files[:LISTED]) + more
