"""The JSON Schema of pipeline.yml, for editors, says of its form what the answers' rules say."""

from __future__ import annotations

import json
import runpy
from typing import Any

import pytest
import yaml
from grammar import some_answers
from hostile_answers_support import CHOSEN, changed
from jsonschema import Draft7Validator
from support import ROOT

from triton_ensemble.compile.rules import Mistake, Rules

SCHEMA = ROOT / "template" / "vendor" / "pipeline.schema.json"
# What no JSON Schema says: rules, and kinds of values that have words of their own.
BEYOND = {"no-value", "too-deep", "twice"}
BEYOND_KINDS = {"key", "printed tensor", "release"}
SEED = 26


@pytest.fixture(scope="module")
def validator() -> Draft7Validator:
    schema = json.loads(SCHEMA.read_text())
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)


def test_it_is_that_of_the_tables() -> None:
    assert runpy.run_path(str(ROOT / "scripts/schema.py"))["text"]() == SCHEMA.read_text(), (
        "run: make pages"
    )


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("examples/*/pipeline.yml")), ids=lambda p: p.parent.name
)
def test_starting_pipelines_are_valid(path: Any, validator: Draft7Validator) -> None:
    assert list(validator.iter_errors(yaml.safe_load(path.read_text()))) == []


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("steps: [{name: a, backend: python, inputs: [A], outputs: [B], fuze: true}]", "steps.0", "'fuze' was unexpected"),
        ("tensors: {A: 'FP33[4]'}", "tensors.A", "does not match"),
        ("gpu_count: many", "gpu_count", "is not of type 'integer'"),
        ("steps: [{name: a, backend: python, inputs: [A]}]", "steps.0", "'outputs' is a required property"),
        ("steps: [{name: b, model: a, inputs: [A], outputs: [B], cache: true}]", "steps.0", "'cache' was unexpected"),
    ],
)  # fmt: skip
def test_what_an_editor_says(
    text: str, place: str, message: str, validator: Draft7Validator
) -> None:
    [error] = validator.iter_errors(yaml.safe_load(text))
    assert (".".join(map(str, error.absolute_path)), message in error.message) == (place, True)


@pytest.mark.parametrize(
    ("count", "of_hostile"), [(10, 5), pytest.param(300, 1, marks=pytest.mark.slow)]
)
def test_it_agrees_with_the_rules_of_answers(
    validator: Draft7Validator, count: int, of_hostile: int
) -> None:
    """The quick form takes one of some hostile answers, the slow form each."""
    rules = Rules()
    given = [answers for answers, _ in some_answers(count, SEED)] + [
        changed(*odd) for odd in CHOSEN[::of_hostile]
    ]
    wrong, broken = [], 0
    for answers in given:
        problem, as_json = next(iter(rules.problems_of_form(answers)), None), in_json(answers)
        valid = as_json is not None and validator.is_valid(as_json)
        broken += not valid
        if valid == bool(problem) and not (problem and is_beyond(problem)):
            wrong.append(f"{problem or 'accepted'}: {as_json}"[:2000])
    assert wrong == []
    assert len(given) / 10 < broken < len(given) * 9 / 10


def is_beyond(problem: Mistake) -> bool:
    """Return whether a problem is about what no schema of JSON can say."""
    is_null_key = problem.where[-1:] == ["None"]  # in JSON it is the text "null"
    kind = problem.args.get("kind")
    return bool(problem.near or problem.rule in BEYOND or kind in BEYOND_KINDS or is_null_key)


def in_json(answers: Any) -> Any:
    """Return answers as an editor has them, with texts for keys, or None if JSON has no such values."""
    try:
        return json.loads(json.dumps(answers, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError):
        return None
