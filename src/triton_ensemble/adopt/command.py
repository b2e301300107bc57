"""An existing Triton model repository -> pipeline.yml, from which the template generates equal configs.

    .venv/bin/python hooks/adopt.py REPOSITORY [--ensemble NAME] > pipeline.yml

It copies nothing: stderr says for each model what to copy by hand. A repository that Triton would refuse
is refused: one line on stderr, exit status 1. docs/adopt.md says more.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a program it sees hooks/ only

try:
    from triton_ensemble.adopt import pipeline, refusal, repository, scheduling, text
    from triton_ensemble.adopt.refusal import Refused, config_of
except ModuleNotFoundError as error:
    sys.exit(f"{error.name} is missing; run `make setup`, then .venv/bin/python hooks/adopt.py")

LISTED = 6  # files that a line names


def adopt(folder: Path, wanted: str) -> tuple[dict[str, Any], list[str]]:
    """The answers, and what to copy by hand."""
    models = repository.load(folder)
    ensemble = scheduling.chosen(models, folder, wanted)
    scheduling.check(ensemble, models, folder)
    answers = pipeline.answers(ensemble, models)
    check(answers, ensemble)
    names = pipeline.used(ensemble, models)
    return answers, [to_copy(name, models[name], folder / name) for name in names]


def check(answers: dict[str, Any], ensemble: str) -> None:
    """Refuses what the template refuses, at the config that is to be changed."""
    answers = answers | {"steps": declared(answers["steps"])}
    where, what = ensemble, refusal.problem("given", answers)
    if step := re.match(r"step ([^ :]+): ", what):
        where, what = step[1], what[step.end() :]
    what = what or refusal.problem("graph", answers)
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
        parts.append(f"{listed(code) or 'model.py'} to steps/{refusal.identifier(name)}/")
    if files or backend != "python":
        parts.append(f"{listed(files) or 'the model file'} to model_repository/{name}/")
    return f"{name}: copy {', '.join(parts)}"


def listed(files: list[str]) -> str:
    more = f" and {len(files) - LISTED} more" if len(files) > LISTED else ""
    return ", ".join(files[:LISTED]) + more


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("repository", type=Path, metavar="REPOSITORY")
    parser.add_argument("--ensemble", default="", metavar="NAME", help="the one to adopt")
    args = parser.parse_args(arguments)
    try:
        answers, copies = adopt(args.repository, args.ensemble)
    except (Refused, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    comments = [f"From the model repository {args.repository.resolve().name}, by hooks/adopt.py."]
    print(text.pipeline_yml(answers, [*comments, "Copy by hand:", *copies]), end="")
    print("\n".join(copies), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
