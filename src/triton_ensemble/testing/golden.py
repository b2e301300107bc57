"""Record the responses to the sample requests in tests/golden.json. Run it when they are right.

`make test` compares with them. The file is yours: review its changes, and set tolerances for outputs whose
values may vary. They are those of NumPy's `isclose`. null accepts any value.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_ensemble.facts.client import Arrays, package
from triton_ensemble.facts.project import Project
from triton_ensemble.facts.reading import read_json
from triton_ensemble.serve.local.process import ServerError
from triton_ensemble.testing.compare import Tolerances, differences, tolerance
from triton_ensemble.testing.files import Sample, array, samples
from triton_ensemble.testing.infer import server
from triton_ensemble.testing.printing import to_json

FILE = Path("tests", "golden.json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no arguments: the current folder and the environment decide."""


def run(arguments: argparse.Namespace) -> int:
    """Record the answers to all samples, and return 1 after one line if a request fails."""
    project = Project.load(Path.cwd())
    own = package(project)
    try:
        with server(project) as url:
            print(record(project, url))
    except (own.InferenceError, OSError, ServerError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def record(project: Project, url: str) -> str:
    """Record the answers of the server at `url` to all samples, and return in a line what is new.

    Raise InferenceError of the project's client if a request fails, or ValueError for a damaged record.
    """
    with package(project).Client(url) as client:
        answers = {one.name: list(client.answers(one.inputs)) for one in samples(project)}
    return write(project, answers, {})


def load(project: Project) -> dict[str, Any]:
    """Read `tolerances` by output and `answers` by sample, or raise ValueError if either is not a mapping."""
    path = project.root / FILE
    if not path.exists():
        return {"tolerances": {}, "answers": {}}
    try:
        record = read_json(path)
        return {side: dict(record.get(side, {})) for side in ("tolerances", "answers")}
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: is not a record of answers: {error}") from error


def tolerances(project: Project) -> Tolerances:
    """Return the tolerances that the owner has set, by output."""
    own: Tolerances = load(project)["tolerances"]
    return own


def problem(project: Project, sample: Sample, answers: Sequence[Arrays]) -> str:
    """Return how answers differ from the sample and the record, and what to do then.

    Return "" if they don't differ.
    """
    own = tolerances(project)
    declared = [sample.outputs] if sample.outputs else []
    lines = [
        f"samples/{sample.name}.json: {line}" for line in _list_differences(answers, declared, own)
    ]
    if gone := [name for name in sample.outputs if name not in project.outputs]:
        lines.append(f"if that is meant: remove {', '.join(gone)} from samples/{sample.name}.json")
    if changes := list(_changes(project, sample, answers, own)):
        lines += [f"{FILE.name}: {sample.name}: {line}" for line in changes]
        lines.append("if the new answers are right: make golden")
    return "\n".join(lines)


def _changes(
    project: Project, sample: Sample, answers: Sequence[Arrays], own: Tolerances
) -> Iterator[str]:
    wanted = [
        {name: array(value, (project.root / FILE).parent) for name, value in answer.items()}
        for answer in load(project)["answers"].get(sample.name, [])
    ]
    if wanted and len(wanted) != len(answers):
        yield f"expected {len(wanted)} answers, got {len(answers)}"
    pairs = zip(answers, wanted, strict=False)
    new = dict.fromkeys(name for have, want in pairs for name in have if name not in want)
    yield from (f"output {name} is new" for name in new)
    yield from _list_differences(answers, wanted, own)


def _list_differences(
    answers: Sequence[Arrays], wanted: Sequence[Arrays], own: Tolerances
) -> Iterator[str]:
    for have, want in zip(answers, wanted, strict=False):
        gone = [name for name in want if name not in have]
        yield from (f"output {name} is gone" for name in gone)
        kept = {name: values for name, values in want.items() if name in have}
        yield from differences(have, kept, own).values()


def write(project: Project, answers: Mapping[str, list[Arrays]], kept: Mapping[str, Any]) -> str:
    """Write answers and those `kept` into the record, and return in a line what is new."""
    before = load(project)
    floats = {
        name: tolerance(values.dtype)
        for each in answers.values()
        for answer in each
        for name, values in answer.items()
        if values.dtype.kind == "f"
    }
    recorded = {name: [to_json(answer) for answer in each] for name, each in answers.items()}
    after = {**kept, **recorded}
    content = {"tolerances": {**floats, **before["tolerances"]}, "answers": after}
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (project.root / FILE).write_text(text + "\n")
    changed = ", ".join(name for name in after if before["answers"].get(name) != after[name])
    return f"{FILE}: {len(after)} samples, new or changed: {changed or 'none'}"
