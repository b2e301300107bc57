"""All that the template refuses of answers, as far as one problem does not follow from another.

The rules say their first problem. What it is about is left out, and they are asked again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from triton_ensemble.pipeline.rules import Answers, Rules

MOST = 10
PARTS = {"tensors", "steps", "inputs", "outputs", "ensemble"}  # which other answers depend on


def refused_parts(answers: Answers, rules: Rules) -> Iterator[str]:
    """Iterate over problems, each of another answer, tensor or step; at most MOST."""
    for number in range(MOST):
        problem = rules.problem(answers)
        rests = _rests(answers) if problem else {}
        subject = next(
            (each for each in rests if problem.startswith((f"{each}: ", f"{each} "))), ""
        )
        if not problem or (number and not subject):
            return  # a problem of the whole may come from what was left out
        yield problem
        if not subject:
            return
        answers = rests[subject]


def _rests(answers: Answers) -> dict[str, Answers]:
    """Return what answers are without one of them, or without a tensor or a step, by how a problem names it."""
    names = answers.keys() - PARTS
    rests = {name: {key: answers[key] for key in answers if key != name} for name in names}
    steps, tensors = answers.get("steps"), answers.get("tensors")
    if isinstance(steps, list) and all(isinstance(step, dict) for step in steps):
        tensors = tensors if isinstance(tensors, dict) else {}
        for step in steps:
            name = step.get("name")
            rests[f"step {name}"] = _with(
                answers, tensors, [s for s in steps if name not in _needed(s)]
            )
        for tensor in tensors:
            others = {name: spec for name, spec in tensors.items() if name != tensor}
            kept = [step for step in steps if repr(tensor) not in _sides(step)]
            rests[f"tensor {tensor}"] = _with(answers, others, kept)
    return rests


def _with(answers: Answers, tensors: Answers, steps: list[Answers]) -> Answers:
    """Return answers with some of the steps, and without the tensors that only the others name."""
    gone, named = (" ".join(map(_sides, each)) for each in (answers["steps"], steps))
    kept = {
        tensor: spec
        for tensor, spec in tensors.items()
        if repr(tensor) in named or repr(tensor) not in gone
    }
    return {**answers, "steps": steps, "tensors": kept}


def _needed(step: Answers) -> Collection[Any]:
    """Return the steps that a step is or needs."""
    calls = step.get("calls")
    return [step.get("name"), step.get("model"), *(calls if isinstance(calls, list) else ())]


def _sides(step: Answers) -> str:
    """Return what a step reads and writes, as text in which each name stands in quotes."""
    return repr([step.get("inputs"), step.get("outputs")])
