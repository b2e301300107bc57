"""Random pipelines, on a real Triton: what the template generates it loads, and answers as NumPy does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from drawing import drawn
from gatekeeper import Gatekeeper
from pipelines import Pipeline, pipelines
from properties_support import failures, shown

# More, and others: PIPELINES=1000 SEED=7 python -m pytest tests/triton/compile/test_properties.py
PIPELINES = int(os.environ.get("PIPELINES", 16))
MODELS_PER_SERVER = 60  # a process each


def groups(examples: Sequence[Pipeline]) -> Iterator[list[Pipeline]]:
    """Yield as many at a time as a server takes."""
    group: list[Pipeline] = []
    for example in examples:
        if group and sum(len(p.steps) for p in [*group, example]) > MODELS_PER_SERVER:
            yield group
            group = []
        group.append(example)
    if group:
        yield group


@pytest.mark.slow
def test_any_valid_pipeline_loads_and_answers_as_numpy_does(template: Path, tmp_path: Path) -> None:
    examples = drawn(pipelines(), PIPELINES)
    problems: list[str] = []
    for i, group in enumerate(groups(examples)):
        problems += failures(template, group, tmp_path / str(i))
        shutil.rmtree(tmp_path / str(i))
    lines = "".join(f"{text.splitlines()[0]}\n" for text in problems)
    assert not problems, (
        f"{len(problems)} of {len(examples)} fail:\n{lines}\nthe shortest:\n{min(problems, key=len)}"
    )


@pytest.mark.slow
def test_what_shares_a_model_may_ask_for_it(template: Path) -> None:
    """`fuse: true` at each step of a run changes nothing."""
    keeper, together = Gatekeeper(template), 0
    for pipeline in drawn(pipelines(), 4 * PIPELINES):
        before = keeper.graph(pipeline.answers)
        names = {s["name"] for model in before["shared_models"] for s in model["steps"]}
        steps = [s | {"fuse": True} if s["name"] in names else s for s in pipeline.steps]
        answers = pipeline.answers | {"steps": steps}
        assert keeper.line(answers) == "", shown(answers, keeper.line(answers))
        after = keeper.graph(answers)
        for part in ("ensembles", "python_models"):
            assert [m["name"] for m in before[part]] == [m["name"] for m in after[part]]
        together += len(names)
    assert together > PIPELINES
