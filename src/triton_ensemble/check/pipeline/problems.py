"""All that the template refuses of answers, as far as one problem does not follow from another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import count
from operator import itemgetter
from typing import Any

import yaml

from triton_ensemble.check.finding import Finding
from triton_ensemble.check.pipeline.findings import find_in_configs
from triton_ensemble.check.pipeline.places import Where, name_place, put_in_words_of_answers
from triton_ensemble.check.pipeline.rules import problems_of_ensemble, problems_of_file
from triton_ensemble.check.pipeline.rules.openai import openai
from triton_ensemble.check.pipeline.rules.stages import stages
from triton_ensemble.compile.file import steps_of, tensors_of
from triton_ensemble.compile.graph import Graph
from triton_ensemble.compile.rules import Mistake, Rules
from triton_ensemble.facts.answers import Answers

Place = tuple[str | int, ...]
TABLES = {"tensors", "steps"}  # answers of which a part may be wrong, while the rest hangs together
# Answers without which it can't be said how anything hangs together.
SIDES = {"inputs", "outputs"}
# What is adopted for an older release names that afterwards.
OF_RELEASE = "backend-gone"
NEEDED = TABLES | {"ensemble", "flow", "gpu_count", "max_batch_size", "triton_release"}


def list_problems(answers: Answers, rules: Rules) -> Iterator[Mistake]:
    """Yield what is wrong with the form of answers, then with how the parts hang together that have their form."""
    of_form = rules.problems_of_form(answers)
    yield from of_form
    gone = {tuple(each.where[: 1 + (each.where[0] in TABLES)]) for each in of_form}
    missing = {place[0] for place in gone if len(place) == 1} | {
        each.near for each in of_form if each.rule == "no-question"
    }
    if not missing & NEEDED and (not gone or answers.keys() >= TABLES):
        sound = _drop_places(gone, answers) if gone else answers
        if sound.get("steps") != []:
            yield from _check_wiring(rules.answer_unchecked(sound), rules, whole=not gone)


def _check_wiring(answers: Answers, rules: Rules, whole: bool) -> Iterator[Mistake]:
    """Yield what is wrong with how steps hang together, and then what only a file says, in steps without such a problem."""
    graph: Graph = answers["graph"]
    own = [*problems_of_ensemble(graph, answers)] if whole else []
    comparable = all(each.where[-1] != "reshape" for each in own)  # with what steps have
    found = own + rules.problems_of_wiring(answers, whole and comparable)
    yield from found
    refused = {_step(each) for each in found}
    for each in problems_of_file(graph, answers, whole and not found):
        if _step(each) not in refused:
            found = [*found, each]
            yield each
    for each in _check_configs(answers, rules, {_step(each) for each in found}, whole):
        found.append(each)
        yield each
    if whole and not found:
        yield from openai(graph, answers)
        yield from stages(graph, answers)
        yield from _check_stages(answers, rules)


def _check_configs(
    answers: Answers, rules: Rules, refused: set[Place], whole: bool
) -> Iterator[Mistake]:
    """Yield the first error of each step and ensemble that the check of the configs finds, unless it is refused anyway."""
    ensembles = {each["name"] for each in answers["graph"]["ensembles"]}
    errors = [
        (each.file.parent.name in ensembles, each, where)
        for each, where in find_in_configs(answers, rules)
        if each.severity == "error" and where is not None and each.rule != OF_RELEASE
    ]
    for is_ensemble, each, where in sorted(errors, key=itemgetter(0)):
        # The rules on answers know better how steps hang together, also where code adds tensors.
        own = "ensemble" in where or (whole and not refused and SIDES & set(where))
        if _step_at(where) not in refused and (own or not is_ensemble):
            refused = {*refused, _step_at(where)}
            yield _make_problem(each, where)


def _make_problem(finding: Finding, where: Where) -> Mistake:
    """Return what the check finds in a config in the words of pipeline.yml."""
    place, field = name_place(where)
    instead = finding.instead
    if "config" not in where:
        instead = put_in_words_of_answers(instead)
    words = {"what": f"{field}{': ' * bool(field)}{finding.what}", "instead": instead}
    return Mistake("in-config", where, {**words, "id": finding.rule}, "", place)


def _check_stages(answers: Answers, rules: Rules) -> Iterator[Mistake]:
    """Yield what is wrong with the pipeline as it is in each stage, and not anyway."""
    given = {name: value for name, value in answers.items() if name != "graph"}
    for name in answers.get("stages") or {}:
        there = json.loads(rules.templates.macro("stages", "answers_of_stage")(given, name))
        for each in _check_wiring(rules.answer_unchecked(there), rules, whole=True):
            yield each.move_into(["stages", name], f"stage {name}: ")


def _step(problem: Mistake) -> Place:
    """Return the place of the step that a problem is in."""
    return _step_at(problem.where)


def _step_at(where: Where) -> Place:
    depth = next(i for i in count(0, 2) if where[i : i + 1] != ["steps"])
    return tuple(where[:depth])


def _drop_places(gone: set[Place], answers: Answers) -> Answers:
    """Return answers without those at some places, and without the steps that need what is there."""
    tensors, steps = _table(answers["tensors"]), _table(answers["steps"])
    kept = [
        step
        for i, step in enumerate(steps)
        if ("steps", i) not in gone
        and ("steps", step["name"]) not in gone
        and not {("tensors", tensor) for tensor in tensors_of(step)} & gone
    ]
    while needy := [step for step in kept if not _models(step) <= _names(kept)]:
        kept = [step for step in kept if step not in needy]
    return {
        **{name: value for name, value in answers.items() if (name,) not in gone},
        "tensors": {t: spec for t, spec in tensors.items() if ("tensors", str(t)) not in gone},
        "steps": kept,
    }


def _table(value: Any) -> Any:
    return yaml.safe_load(value) if isinstance(value, str) else value


def _names(steps: Iterable[Answers]) -> set[str]:
    """Return the names of steps, also inside ensembles."""
    return {each["name"] for _, each in steps_of({"steps": steps})}


def _models(step: Answers) -> set[str]:
    """Return the steps whose models a step uses or calls."""
    inside = [each for _, each in steps_of({"steps": [step]})]
    used = {each["model"] for each in inside if "model" in each}
    return used.union(*(each.get("calls", []) for each in inside))
