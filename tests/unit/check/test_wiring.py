"""Named wirings, most of them found by test_properties.py: what the template says of each."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from gatekeeper import DEFAULTS, Gatekeeper
from wiring_support import MISTAKES, REFUSED, WIRINGS

from triton_ensemble.check.pipeline.check import check_answers


@pytest.fixture(scope="module")
def keeper(template: Path) -> Gatekeeper:
    return Gatekeeper(template)


@pytest.mark.parametrize("name", WIRINGS | MISTAKES)
def test_a_wiring_is_accepted_or_refused_at_a_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yml"
    path.write_text(yaml.safe_dump(DEFAULTS | (WIRINGS | MISTAKES)[name], sort_keys=False))
    found = [f"{each.line} {each.rule}: {each.words}" for each in check_answers(path)]
    assert found == REFUSED.get(name, [])


def test_a_step_that_depends_on_all_inputs_is_listed_first(keeper: Gatekeeper) -> None:
    def models(name: str) -> list[str]:
        answers = WIRINGS[name]
        unfused = {**answers, "steps": [{**given, "fuse": False} for given in answers["steps"]]}
        return [step["model"] for step in keeper.graph(unfused)["ensembles"][0]["scheduling"]]

    assert models("an input that enters late") == ["c", "a", "b"]
    assert models("two late inputs, all outputs at once") == ["a", "b", "c"]
    assert models("diamond") == ["a", "b", "c", "d"]


def test_no_policies_are_no_policy_of_level_0(keeper: Gatekeeper) -> None:
    configs = keeper.configs(WIRINGS["no policy of a priority"])
    assert "priority_queue_policy" not in configs["a"]
