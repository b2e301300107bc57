"""Print the pipeline.yml of an existing model repository: the template generates equal configs from it.

It copies nothing: stderr says for each model what to copy by hand. A repository that Triton would
refuse is refused: one line on stderr, exit status 1. docs/adopt.md says more.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from triton_ensemble.adopt import repository, scheduling
from triton_ensemble.adopt.answers import answers_of, used
from triton_ensemble.adopt.refusal import Refused, config_of
from triton_ensemble.adopt.written import pipeline_yml
from triton_ensemble.pipeline.rules import rules

LISTED = 6  # files that a line names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument("repository", type=Path, metavar="REPOSITORY")
    parser.add_argument("--ensemble", default="", metavar="NAME", help="the one to adopt")


def run(arguments: argparse.Namespace) -> int:
    """Print pipeline.yml on stdout, and on stderr what to copy by hand or why Triton refuses it."""
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


def adopt(folder: Path, wanted: str) -> tuple[dict[str, Any], list[str]]:
    """Return the answers for the ensemble `wanted`, or the only one, and a line on what to copy for each model.

    Refused where Triton or the template refuses it.
    """
    models = repository.load(folder)
    ensemble = scheduling.chosen(models, folder, wanted)
    scheduling.check(ensemble, models, folder)
    answers = answers_of(ensemble, models)
    refuse(answers, ensemble)
    return answers, [to_copy(name, models[name], folder / name) for name in used(ensemble, models)]


def refuse(answers: dict[str, Any], ensemble: str) -> None:
    """Raise Refused for what the template refuses, at the config that is to be changed."""
    where, what = ensemble, rules().problem(answers | {"steps": declared(answers["steps"])})
    if step := re.match(r"step ([^ :]+): ", what):
        where, what = step[1], what[step.end() :]
    if what:
        what, _, instead = what.partition("; ")
        raise Refused(config_of(where), what, instead or "change it")


def declared(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps without `declare: false`, for which the template trusts the model file: what half a config says counts too."""
    return [
        {
            key: declared(value) if key == "steps" else value
            for key, value in step.items()
            if key != "declare"
        }
        for step in steps
    ]


def to_copy(name: str, config: repository.Config, folder: Path) -> str:
    """One line: what of a model the generated project can't make."""
    backend = repository.backend_of(config)
    if backend == "ensemble":
        return f"{name}: nothing, the configs say it all"
    files = [
        path.relative_to(folder).as_posix()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path.name != "config.pbtxt"
    ]
    parts = []
    if backend == "python":
        code = [file for file in files if "/" in file]
        files = [file for file in files if file not in code]
        module = rules().macro("names", "identifier")(name)
        parts.append(f"{listed(code) or 'model.py'} to steps/{module}/")
    if files or backend != "python":
        parts.append(f"{listed(files) or 'the model file'} to model_repository/{name}/")
    return f"{name}: copy {', '.join(parts)}"


def listed(files: list[str]) -> str:
    more = f" and {len(files) - LISTED} more" if len(files) > LISTED else ""
    return ", ".join(files[:LISTED]) + more
