"""Steps share the same models in each order in which they may be listed."""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

import pytest
from gatekeeper import Gatekeeper
from support import ROOT, step
from wiring_support import wired

KEEPER = Gatekeeper(ROOT)
Steps = list[dict[str, Any]]
FRONT = [step("classify", ["A"], ["M"], "onnxruntime"), step("top", ["M"], ["N"])]
VAD, MERGE = step("vad", ["A"], ["O"]), step("merge", ["N", "O"], ["X"])
ORDERS = {"above": [VAD, *FRONT, MERGE], "between": [FRONT[0], VAD, FRONT[1], MERGE]}
DIMS = {"tensor": "A", "dims": [-1]}


def shared_models(steps: Steps) -> dict[str, list[str]]:
    """Return the steps of each model that serves several, by its name."""
    answers = wired(*steps)
    assert KEEPER.line(answers) == ""
    shared = KEEPER.graph(answers)["shared_models"]
    return {model["name"]: [each["name"] for each in model["steps"]] for model in shared}


@pytest.mark.parametrize("order", [*ORDERS.values(), [*FRONT, VAD, MERGE]], ids=[*ORDERS, "below"])
def test_a_step_that_would_wait_for_a_model_beside_it_joins_in_no_order(order: Steps) -> None:
    assert shared_models(order) == {"top_to_merge": ["top", "merge"]}


def test_of_two_steps_that_differ_the_same_one_joins_in_each_order() -> None:
    ends = step("one", ["A"], ["M"]), step("two", {"A": DIMS}, ["N"])
    first, second = (
        shared_models([*order, step("both", ["M", "N"], ["X"])]) for order in permutations(ends)
    )
    assert first == second
    assert len(first) == 1


def random_steps(chance: random.Random) -> Steps:
    """Return steps of which each reads one or two tensors above it, and the last all that nothing reads."""
    tensors, steps = ["A", "B"], []
    for name in "cdefg":
        read = chance.sample(tensors, chance.choice([1, 1, 2]))
        backend = chance.choice(["python", "python", "python", "onnxruntime"])
        steps.append(step(f"s_{name}", read, [name.upper()], backend))
        tensors.append(name.upper())
    unread = {*"CDEFG"} - {tensor for each in steps for tensor in each["inputs"]}
    return [*steps, step("s_end", sorted(unread), ["X"])]


def listed_otherwise(steps: Steps, chance: random.Random) -> Steps:
    """Return the steps in another order, each below those that it reads from."""
    rest, order = [*steps], []
    while rest:
        missing = {tensor for each in rest for tensor in each["outputs"]}
        ready = [each for each in rest if missing.isdisjoint(each["inputs"])]
        order.append(rest.pop(rest.index(chance.choice(ready))))
    return order


@pytest.mark.parametrize("seed", range(12))
def test_each_order_of_a_random_pipeline_has_the_same_models(seed: int) -> None:
    chance = random.Random(seed)
    steps = random_steps(chance)
    assert shared_models(listed_otherwise(steps, chance)) == shared_models(steps)
