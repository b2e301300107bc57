"""Any kind of value at any place of the answers: accepted, or refused in one line, without a traceback and without a config that does not parse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import copier
import pytest
import yaml
from copier.errors import UserMessageError
from gatekeeper import Gatekeeper
from google.protobuf import text_format  # type: ignore[import-untyped]
from hostile_answers_support import CHOSEN, HOSTILE, RICH, Answers, Place, changed, places
from support import ROOT, problem
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped]

COPIES = HOSTILE // 80


def plain(answers: Answers) -> Answers:
    """Return the answers as JSON has them, where keys are texts, without what is empty."""
    parsed: Answers = json.loads(json.dumps(answers))
    return {key: value for key, value in parsed.items() if value}


@pytest.fixture(scope="module")
def keeper(template: Path) -> Gatekeeper:
    return Gatekeeper(template)


def test_the_answers_that_are_made_hostile_use_all_of_the_grammar(keeper: Gatekeeper) -> None:
    def keys(value: Any) -> set[str]:
        return {str(key) for place in places(value) for key in place}

    fields = yaml.safe_load((ROOT / "hooks/catalog/fields.yml").read_text())
    del fields["prompt"]  # is not what a project has
    del fields["answer"][
        "openai"
    ]  # a pipeline with sequences has no such routes: see test_openai_rules.py
    fields = {kind: of for kind, of in fields.items() if kind != "openai" and " route" not in kind}
    # A row of fields.yml has an example of its own.
    assert {field for kind in fields.values() for field in kind} <= keys(RICH)
    assert keeper.line(RICH) == ""


@pytest.fixture(scope="module")
def lines(keeper: Gatekeeper) -> list[str]:
    """Return what the template says of each."""

    def line(place: Place, odd: Any) -> str:
        try:
            return keeper.line(changed(place, odd))
        except Exception as error:
            return f"{type(error).__name__}\n{error}"

    return [line(*chosen) for chosen in CHOSEN]


@pytest.mark.slow
def test_hostile_answers_are_accepted_or_refused_in_one_line(lines: list[str]) -> None:
    assert not [
        f"{'.'.join(map(str, place))} = {odd!r}: {line}"
        for (place, odd), line in zip(CHOSEN, lines, strict=True)
        if "\n" in line or len(line) > 600
    ]


@pytest.mark.slow
def test_hostile_answers_that_are_accepted_generate_a_project_that_parses(
    template: Path, lines: list[str], tmp_path: Path
) -> None:
    chosen = zip(CHOSEN, lines, strict=True)
    accepted = [change for change, line in chosen if not line and change[0][-1] != "config"]
    for i, (place, odd) in enumerate(accepted[:COPIES]):
        answers, project = changed(place, odd), tmp_path / str(i)
        copier.run_copy(str(template), project, data=answers, defaults=True, quiet=True)
        for config in project.glob("model_repository/*/config.pbtxt"):
            text_format.Parse(config.read_text(), model_config_pb2.ModelConfig())
        saved = yaml.safe_load((project / "pipeline.yml").read_text())
        assert plain(saved) == plain(answers), (place, odd)


NESTED = "[" * 40 + "]" * 40


@pytest.mark.parametrize(
    ("answers", "line"),
    [
        ("steps: &a [*a]", "steps: goes too deep; drop some of its brackets"),
        (f"tensors: {NESTED}", "tensors: goes too deep; drop some of its brackets"),
        (
            "project_name: 2026-01-02",
            "project_name has 2026-01-02, which is not a text, number, list or mapping; write a text in quotes",
        ),
        ("inputs: {on: {}}", "inputs has the key true; write it in quotes"),
        ("ci: {2026-01-02: a}", "ci is {}; write one of github, gitlab, none"),
        (
            "ensemble: {parameters: {a: !!set {b}}}",
            "ensemble parameters has a: has {'b'}, which is not a text, number, list or mapping; write a text in quotes",
        ),
        (
            "ensemble: {parameters: !!binary YQ==}",
            "ensemble parameters has b'a', which is not a text, number, list or mapping; write a text in quotes",
        ),
        (
            "ensemble: {parameters: {2026-01-02: a}}",
            "ensemble parameters has 2026-01-02, which is not a text, number, list or mapping; write a text in quotes",
        ),
    ],
)
def test_what_yaml_reads_as_no_text(keeper: Gatekeeper, answers: str, line: str) -> None:
    assert keeper.line(RICH | yaml.safe_load(answers)) == line


def test_saved_and_text_answers_are_checked_alike(template: Path, tmp_path: Path) -> None:
    texts = {"tensors": "{A: 2026-01-02}", "steps": "[]"}
    with pytest.raises(UserMessageError) as caught:
        copier.run_copy(str(template), tmp_path / "p", data=texts, defaults=True, quiet=True)
    assert "2026-01-02" in problem(caught.value)
