"""One rule, once: what the answers accept the check finds no error in, and the other way round, for every field of the grammar."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from gatekeeper import DEFAULTS
from grammar import FIELDS, OF_FIELD, OF_KIND, answers
from pipelines import Answers
from test_properties import SEED, drawn

from triton_ensemble.check.finding import Finding
from triton_ensemble.pipeline.findings import findings_in, generated_repository
from triton_ensemble.pipeline.rules import RefusedAnswers, Rules

# More, and others: AGREEMENTS=5000 SEED=7 python -m pytest -m slow tests/test_agreement.py
AGREEMENTS = int(os.environ.get("AGREEMENTS", 2000))

# What the answers refuse and the check does not, by the refusal's words, with the reason.
STRICTER: dict[str, str] = {}
# What the answers accept and the check has an error for, by rule, with the reason.
LOOSER: dict[str, str] = {}


@dataclass
class Verdicts:
    """What the two say of answers."""

    answers: Answers
    refusal: str
    findings: list[Finding]

    @property
    def errors(self) -> list[Finding]:
        """What the check would refuse."""
        return [finding for finding in self.findings if finding.severity == "error"]

    def disagreement(self) -> str:
        """What they disagree in; empty where they do not, or for a listed reason."""
        if not self.refusal:
            unlisted = [finding for finding in self.errors if finding.rule not in LOOSER]
            return "".join(f"accepted, but {f.rule}: {f.what}\n" for f in unlisted)
        if self.errors or any(re.search(words, self.refusal) for words in STRICTER):
            return ""
        return f"the check finds nothing, but refused: {self.refusal}\n"


def verdicts(rules: Rules, given: Answers) -> Verdicts | None:
    """Asks both; none where the values are of the wrong kind, so that nothing can be generated."""
    given = DEFAULTS | given
    try:
        rules.values(given, ["graph"])
    except RefusedAnswers:
        return None
    refusal = rules.problem(given)
    unchecked = rules.unchecked(given)
    with TemporaryDirectory() as folder:
        configs = rules.rendered(unchecked)
        findings = findings_in(generated_repository(Path(folder), unchecked, configs))
    return Verdicts(given, refusal, findings)


def disagreements(count: int) -> Iterator[str]:
    """What they disagree in of so many pipelines, each with its pipeline.yml."""
    rules = Rules()
    for given in drawn(answers(), count):
        asked = verdicts(rules, given)
        if asked and (words := asked.disagreement()):
            yield f"{words}---\n{yaml.safe_dump(given, sort_keys=False, allow_unicode=True)}"


def test_each_field_has_values_to_try() -> None:
    fields = [(kind, field) for kind, given in FIELDS.items() for field in given]
    assert [f for f in fields if f not in OF_FIELD and FIELDS[f[0]][f[1]] not in OF_KIND] == []
    assert OF_FIELD.keys() <= {*fields}


def agree(count: int) -> None:
    found = [*disagreements(count)]
    heads = "".join(text.partition("---")[0] for text in found)
    shortest = min(found, key=len, default="")
    assert not found, f"{len(found)} of {count}, SEED {SEED}:\n{heads}\nthe shortest:\n{shortest}"


def test_the_answers_and_the_check_agree() -> None:
    agree(150)


@pytest.mark.slow
def test_they_agree_on_thousands() -> None:
    agree(AGREEMENTS)
