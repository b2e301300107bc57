"""Samples of a project"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from triton_ensemble.check.examples import A, Files
from triton_ensemble.check.repository import Repository, projects
from triton_ensemble.check.rule import error
from triton_ensemble.facts.config import Model, Problem
from triton_ensemble.facts.project import STUB
from triton_ensemble.facts.reading import DATA_BYTES, read_json, read_text

MADE = "ensemble_name: m\nsteps: []\n"
SAMPLED: Files = {
    ".copier-answers.yml": MADE,
    "pipeline.yml": MADE,
    "samples/one.json": '{\n  "inputs": {"X": [[1, 2, 3, 4]]}\n}\n',
    "model_repository/m/config.pbtxt": A,
}


@dataclass(frozen=True)
class SampleFile:
    """The inputs that a file of samples/ has, and the model that they are for."""

    path: Path
    inputs: frozenset[str]
    model: Model


def sample_files(repository: Repository) -> Iterator[SampleFile]:
    """Iterate over the owner's samples, as far as they are requests: tests say what is wrong with others."""
    for project in projects(repository):
        model = project.models.get(str(project.answers.get("ensemble_name")))
        if model and model.config.input:  # one model may leave its inputs to its file
            for path in sorted(project.owned.glob("samples/*.json")):
                yield from (SampleFile(path, names, model) for names in _inputs(path))


def _inputs(path: Path) -> Iterator[frozenset[str]]:
    """Yield the names of a request's inputs, or nothing for a stub or a file that is not a request."""
    try:
        sample = read_json(path)
        if STUB not in sample and isinstance(sample["inputs"], dict):
            yield frozenset(sample["inputs"])
    except (OSError, ValueError, TypeError, KeyError):
        return


@error(
    "sample-inputs",
    of=sample_files,
    triton="`expected 2 inputs but got 1 inputs for model 'm'`, `unexpected inference input 'Z' for model 'm'`",
    fails={**SAMPLED, "samples/one.json": '{\n  "inputs": {"Z": [[1, 2, 3, 4]]}\n}\n'},
    passes=SAMPLED,
)
def sample_inputs(sample: SampleFile) -> Iterator[Problem]:
    """A sample has the inputs that the ensemble takes."""
    taken = {tensor.name: tensor.optional for tensor in sample.model.config.input}
    lacks = [name for name, optional in taken.items() if not optional and name not in sample.inputs]
    extra = sorted(sample.inputs - taken.keys())
    said, instead = [], []
    if lacks:
        said.append(f"lacks the input{'s' * (len(lacks) > 1)} {', '.join(lacks)}")
        instead.append(f"add {', '.join(lacks)}")
    if extra:
        said.append(f"has {', '.join(extra)}, which the ensemble does not take")
        instead.append(f"take {', '.join(extra)} out")
    if said:
        lines = read_text(sample.path, DATA_BYTES).splitlines()
        line = next((i for i, text in enumerate(lines, 1) if '"inputs"' in text), 1)
        yield Problem(sample.path, line, " and ".join(said), " and ".join(instead))
