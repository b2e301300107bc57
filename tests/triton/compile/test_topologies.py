"""Each way to wire steps, and each starting choice: on one real Triton they answer as NumPy does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pipelines import Pipeline, fed, spec
from properties_support import failures
from support import ROOT, step

TOPOLOGIES: dict[str, list[dict[str, Any]]] = {
    "a lone step": [step("a", ["A"], ["X"])],
    "chain": [step("a", ["A"], ["M"]), step("b", ["M"], ["N"]), step("c", ["N"], ["X"])],
    "shared intermediate": [
        step("a", ["A"], ["M"]),
        step("b", ["M"], ["X"]),
        step("c", ["M"], ["Y"]),
    ],
    "fan": [
        step("a", ["A"], ["M"]),
        step("b", ["M"], ["N"]),
        step("c", ["M"], ["O"]),
        step("d", ["N", "O"], ["X"]),
    ],
    "diamond of a step with two outputs": [
        step("a", ["A"], ["M", "N"]),
        step("b", ["M"], ["O"]),
        step("c", ["N"], ["P"]),
        step("d", ["O", "P"], ["X"]),
    ],
    "skip connection": [
        step("a", ["A"], ["M"]),
        step("b", ["M"], ["N"]),
        step("c", ["A", "M", "N"], ["X"]),
    ],
    "an input that enters late": [
        step("a", ["A"], ["M"]),
        step("b", ["M"], ["X"]),
        step("c", ["M", "B"], ["Y"]),
    ],
    "several inputs and outputs": [
        step("a", ["A", "B"], ["M", "X"]),
        step("b", ["M", "C"], ["Y", "Z"]),
    ],
}


def wired(name: str, steps: list[dict[str, Any]]) -> dict[str, Any]:
    letters = {tensor for s in steps for side in ("inputs", "outputs") for tensor in s[side]}
    return {
        "project_name": name,
        "tensors": dict.fromkeys(sorted(letters), "FP32[4]"),
        "steps": steps,
    }


def example(path: Path) -> dict[str, Any]:
    """Return the answers of a starting choice, all steps of its ensemble in Python. None calls others."""
    given = yaml.safe_load(path.read_text())
    called = {name for s in given["steps"] for name in s.get("calls", [])}
    steps = [
        {key: value for key, value in s.items() if key not in ("requirements", "calls")}
        | {"backend": "python"}
        for s in given["steps"]
        if s["name"] not in called
    ]
    return {"project_name": path.parent.name, "tensors": given["tensors"], "steps": steps}


def unfused(answers: dict[str, Any]) -> dict[str, Any]:
    steps = [s | {"fuse": False} for s in answers["steps"]]
    return answers | {"project_name": f"{answers['project_name']}-unfused", "steps": steps}


def pipeline(answers: dict[str, Any]) -> Pipeline:
    answers |= {"ensemble_name": "served", "starting_pipeline": "my-own", "max_batch_size": 4}
    sizes = {name: tuple(spec(given)[1]) for name, given in answers["tensors"].items()}
    return Pipeline(answers, 3, sizes)


@pytest.mark.slow
def test_each_topology_and_starting_choice_answers_as_numpy_does(
    template: Path, tmp_path: Path
) -> None:
    """All outputs are asked for at once, and each alone. Steps that can share a model do, and do not."""
    paths = sorted(ROOT.glob("examples/*/pipeline.yml"))
    # NumPy can't answer for a sequence and for trees, and a Python step can't serve another step's model;
    # test_speech_activity.py, test_trees.py and test_retrieval.py compare theirs.
    apart = ("sequence:", "backend: fil", "  model: ")
    examples = [
        example(path) for path in paths if not any(word in path.read_text() for word in apart)
    ]
    fused = [wired(f"t{i}", steps) for i, steps in enumerate(TOPOLOGIES.values())] + examples
    given = fused + [unfused(answers) for answers in fused]
    problems = failures(template, [pipeline(answers) for answers in given], tmp_path)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("choice", "edges"),
    [
        ("text-classification", "tokenize>classify classify>label"),
        ("digit-screening", "preprocess>classify preprocess>screen"),
        (
            "second-opinion",
            "featurize>linear featurize>forest linear>join forest>join",
        ),
    ],
)
def test_a_starting_choice_is_the_topology_that_it_is_offered_as(choice: str, edges: str) -> None:
    steps = yaml.safe_load((ROOT / f"examples/{choice}/pipeline.yml").read_text())["steps"]
    writer = {tensor: s["name"] for s in steps for tensor in fed(s["outputs"]).values()}
    reads = [(s["name"], tensor) for s in steps for tensor in fed(s["inputs"]).values()]
    assert sorted(f"{writer[t]}>{name}" for name, t in reads if t in writer) == sorted(
        edges.split()
    )
