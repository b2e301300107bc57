"""The rules of the check, each by its two examples, on a real Triton too, and the page that is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from triton_ensemble.check import examples
from triton_ensemble.check.rules import RULES, TOPICS, Rule
from triton_ensemble.check.rules.engine import check


def rules() -> list[object]:
    return [pytest.param(rule, id=rule.id) for rule in RULES.values()]


@pytest.mark.parametrize("rule", rules())
def test_a_rule_is_a_function_of_its_name_in_a_topic(rule: Rule) -> None:
    assert rule.find.__name__ == rule.id.replace("-", "_")
    assert rule.find.__module__ in {topic.__name__ for topic in TOPICS}
    assert rule.summary.endswith((".", ")."))
    assert rule.triton


@pytest.mark.parametrize("rule", rules())
def test_a_rule_alone_finds_what_fails_and_no_rule_what_passes(rule: Rule, tmp_path: Path) -> None:
    findings = check(examples.write(rule.fails, tmp_path / "fails"))
    assert {finding.rule for finding in findings} == {rule.id}
    assert check(examples.write(rule.passes, tmp_path / "passes")) == []
