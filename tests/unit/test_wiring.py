"""Named wirings, most of them found by test_properties.py: what the template says of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gatekeeper import Gatekeeper
from wiring_support import WIRINGS, batched


@pytest.fixture(scope="module")
def keeper(template: Path) -> Gatekeeper:
    return Gatekeeper(template)


@pytest.mark.parametrize(("answers", "line"), WIRINGS.values(), ids=WIRINGS)
def test_a_wiring_is_accepted_or_refused_with_a_line(
    keeper: Gatekeeper, answers: dict[str, Any], line: str
) -> None:
    assert keeper.line(answers) == line


def test_a_step_that_depends_on_all_inputs_is_listed_first(keeper: Gatekeeper) -> None:
    def models(name: str) -> list[str]:
        answers = WIRINGS[name][0]
        unfused = {**answers, "steps": [{**given, "fuse": False} for given in answers["steps"]]}
        return [step["model"] for step in keeper.graph(unfused)["ensembles"][0]["scheduling"]]

    assert models("an input that enters late") == ["c", "a", "b"]
    assert models("two late inputs, all outputs at once") == ["a", "b", "c"]
    assert models("diamond") == ["a", "b", "c", "d"]


def test_no_policies_are_no_policy_of_level_0(keeper: Gatekeeper) -> None:
    configs = keeper.configs(batched(priority_queue_policy={}))
    assert "priority_queue_policy" not in configs["a"]
