"""The check and a real Triton on mutants of six shapes of repositories: they agree, and the check raises no false alarm."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from drawing import SEED
from mutants import mutate, shown
from served_shapes import SHAPES, Files, drafted
from verdicts import Judge, errors

# More, and others: MUTANTS=1000 SEED=7 python -m pytest -s -m slow tests/triton/check/test_verdicts.py
MUTANTS = int(os.environ.get("MUTANTS", 130))


@dataclass
class Case:
    """A repository and the model to ask, with what was changed, in words."""

    kind: str
    top: str
    files: Files
    change: str


def mutants() -> Iterator[Case]:
    for i in range(MUTANTS):
        chance = random.Random(f"{SEED}.{i}")
        shape = chance.choice(sorted(SHAPES))
        draft = drafted(shape, f"{shape}_")
        files = before = draft.texts()
        while files == before or f"{draft.top}/config.pbtxt" not in files:
            kind, files = mutate(chance, drafted(shape, f"{shape}_"))
        yield Case(kind, draft.top, files, shown(before, files))


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_served_and_nothing_is_found(judge: Judge, shape: str) -> None:
    draft = drafted(shape, f"{shape}_")
    assert errors(draft.texts(), draft.top) == []
    assert judge.why_not(draft.texts(), draft.top) == ""


@pytest.mark.slow
def test_the_verdict_on_a_mutant_is_tritons(judge: Judge) -> None:
    """If they differ, a Triton of its own is asked again."""
    wrong: list[str] = []
    drawn, refused, differing = Counter[str](), Counter[str](), Counter[str]()
    unloaded = alarms = 0
    for i, case in enumerate(mutants()):
        found, why = errors(case.files, case.top), judge.why_not(case.files, case.top)
        if bool(found) != bool(why):
            why = judge.why_not_alone(case.files, case.top)
        drawn[case.kind] += 1
        refused[case.kind] += bool(why)
        if bool(found) != bool(why):
            differing[case.kind] += 1
            alarms += not why
            unloaded += not judge.loaded
            wrong.append(f"{i} {case.kind}: {case.change} | check: {found} | Triton: {why[-300:]}")
            print(wrong[-1], flush=True)
    for kind in sorted(drawn):
        print(f"{kind:24}{drawn[kind]:5}{refused[kind]:5}{differing[kind]:5}")
    print(
        f"SEED {SEED}: {MUTANTS} mutants, {refused.total()} refused, {len(wrong)} differ:",
        f"{unloaded} are not loaded, {alarms} are false alarms",
    )
    assert len(wrong) <= MUTANTS * 0.005 + 1, "\n".join(wrong)
    assert not alarms, "\n".join(wrong)
