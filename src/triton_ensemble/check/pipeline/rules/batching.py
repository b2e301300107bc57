"""How requests become batches and sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from triton_ensemble import catalog
from triton_ensemble.check.dims import is_same_dims
from triton_ensemble.pipeline.rules import Answers, Problem, problem

CORRELATION_IDS = [f"TYPE_{name}" for name in catalog.table("sequences")["correlation_id"]]

FALSE_TRUE = ("int32_false_true", "fp32_false_true", "bool_false_true")


def batching(step: Answers, graph: Answers, answers: Answers) -> Iterator[Problem]:
    """Sizes, priorities and order that a batcher can have."""
    given, rows = step.get("batching"), step["max_batch_size"]
    sequence, settings = step.get("sequence", {}), given if isinstance(given, dict) else {}
    if given and not rows and "default_queue_policy" not in settings:
        yield problem("batching-no-rows", "batching")
    if given and "sequence" in step:
        yield problem("batching-sequence", "batching")
    if "direct" in sequence and "oldest" in sequence:
        yield problem("direct-oldest", "sequence")
    for of, place in (
        (settings, ["batching"]),
        (sequence.get("oldest", {}), ["sequence", "oldest"]),
    ):
        sizes = of.get("preferred_batch_size", [])
        if sizes and max(sizes) > rows:
            place = [*place, "preferred_batch_size", sizes.index(max(sizes))]
            yield problem("preferred-size", *place, size=max(sizes), max_batch_size=rows)
    levels, by_level = settings.get("priority_levels", 0), settings.get("priority_queue_policy", {})
    if settings.get("preserve_ordering"):
        if levels > 1:
            yield problem("ordering-levels", "batching", "preserve_ordering", levels=levels)
        if any(map(_is_delaying, [settings.get("default_queue_policy", {}), *by_level.values()])):
            yield problem("ordering-delay", "batching", "preserve_ordering")
    if levels and not 1 <= settings.get("default_priority_level", 0) <= levels:
        yield problem("default-level", "batching", "default_priority_level", levels=levels)
    if levels and max(map(int, by_level), default=0) > levels:
        yield problem("policy-level", "batching", "priority_queue_policy", levels=levels)


def _is_delaying(policy: Answers) -> bool:
    return policy.get("timeout_action") == "DELAY" and policy.get("default_timeout_us", 0) > 0


def sequence(step: Answers, graph: Answers, answers: Answers) -> Iterator[Problem]:
    """Inputs that Triton adds to the requests of a sequence, and states that it keeps."""
    given, inputs = step.get("sequence", {}), {each["name"] for each in step["inputs"]}
    states: list[Any] = given.get("state", [])
    for place, key, items in (
        ("control_input", "name", given.get("control_input", [])),
        ("state", "input_name", states),
    ):
        for each in items:
            if each[key] in inputs:
                yield problem("sequence-input", "sequence", place, each[key], name=each[key])
    kinds = set()
    for control_input in given.get("control_input", []):
        at = ["sequence", "control_input", control_input["name"]]
        for control in control_input["control"]:
            type, release = control.get("data_type"), answers["triton_release"]
            kind: str = control.get("kind", "CONTROL_SEQUENCE_START")
            if kind in kinds:
                yield problem("control-twice", *at, kind=kind)
            kinds.add(kind)
            values = [control[field] for field in FALSE_TRUE if field in control]
            if not kind.endswith("CORRID"):
                if [*map(len, values)] != [2]:
                    yield problem("control-values", *at, kind=kind)
                continue
            if type is None or values:
                yield problem("control-id", *at, kind=kind)
            if type not in CORRELATION_IDS:
                types = ", ".join(CORRELATION_IDS)
                yield problem("correlation-type", *at, type=type, types=types)
            if type == "TYPE_STRING" and release < "24.11":
                yield problem("correlation-release", *at, type=type, release=release)
    for state in states:
        for first in state.get("initial_state", []):
            yield from _initial(state, first)


def _initial(state: Answers, first: Answers) -> Iterator[Problem]:
    place = ["sequence", "state", state["input_name"], "initial_state"]
    words = {"state": state["input_name"], "name": first["name"]}
    own, dims = state.get("dims", []), first.get("dims", [])
    if first["data_type"] != state["data_type"]:
        types = {"own": state["data_type"], "data_type": first["data_type"]}
        yield problem("initial-type", *place, **words, **types)
    if not is_same_dims(dims, own):
        yield problem("initial-dims", *place, **words, own=own, dims=dims)
    if ("data_file" in first) == ("zero_data" in first):
        yield problem("initial-data", *place, name=first["name"])
