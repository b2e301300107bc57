"""The check and a real Triton on mutants of six shapes of repositories: they agree, and the check raises no false alarm."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from drawing import SEED
from mutants import mutated, shown
from served_shapes import SHAPES, Files, drafted
from verdicts import Judge, write

from triton_ensemble.check.engine import check

# More, and others: MUTANTS=1000 SEED=7 python -m pytest -s -m slow tests/triton/test_verdicts.py
MUTANTS = int(os.environ.get("MUTANTS", 60))
PROJECT = 'triton_release: "24.10"\nsteps: []\ngpu_count: 0\nensemble_name: e\n'


@dataclass
class Case:
    """A repository and the model to ask; what was changed, in words."""

    name: str
    top: str
    files: Files
    change: str = ""


def errors(files: Files) -> list[str]:
    """Return the errors that the check finds in a repository of a project."""
    with TemporaryDirectory() as folder:
        Path(folder, ".copier-answers.yml").write_text(PROJECT)
        repository = Path(folder, "model_repository")
        write(repository, files)
        return [f"{f.rule}: {f.what}" for f in check(repository) if f.severity == "error"]


def mutants(count: int) -> Iterator[Case]:
    for i in range(count):
        chance = random.Random(f"{SEED}.{i}")
        shape = chance.choice(sorted(SHAPES))
        draft = drafted(shape, f"{shape}_")
        files = before = draft.texts()
        while files == before or f"{draft.top}/config.pbtxt" not in files:
            kind, files = mutated(chance, drafted(shape, f"{shape}_"))
        yield Case(f"{i} {kind}", draft.top, files, shown(before, files))


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_served_and_nothing_is_found(judge: Judge, shape: str) -> None:
    draft = drafted(shape, f"{shape}_")
    assert errors(draft.texts()) == []
    assert judge.why_not(draft.texts(), draft.top) == ""


@pytest.mark.slow
def test_the_verdict_on_a_mutant_is_tritons(judge: Judge) -> None:
    """Where they differ, a Triton of its own is asked again."""
    wrong: list[str] = []
    refused = alarms = 0
    for case in mutants(MUTANTS):
        found, why = errors(case.files), judge.why_not(case.files, case.top)
        if bool(found) != bool(why):
            why = judge.why_not_alone(case.files, case.top)
        refused += bool(why)
        if bool(found) != bool(why):
            alarms += not why
            wrong.append(f"{case.name}: {case.change} | check: {found} | Triton: {why[-300:]}")
    said = f"SEED {SEED}: {MUTANTS} mutants, {refused} refused, {len(wrong)} differ, {alarms} false alarms"
    print(said, *wrong, sep="\n")
    assert len(wrong) <= MUTANTS * 0.005 + 1, "\n".join(wrong)
    assert not alarms, "\n".join(wrong)
