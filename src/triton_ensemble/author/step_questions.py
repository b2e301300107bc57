"""The questions about one step, in their order. Each is made from the answers to those before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import questionary
from questionary import Choice, Question

from triton_ensemble.author.adopt.fields import Defaults
from triton_ensemble.author.draft import Draft, type_of
from triton_ensemble.author.given import (
    WHAT,
    GivenModel,
    models_in,
    read_given_model,
)
from triton_ensemble.author.tensor import DraftTensor
from triton_ensemble.compile.file import bindings, tensors_of
from triton_ensemble.compile.flow import name as word
from triton_ensemble.compile.questions import CHECKS
from triton_ensemble.compile.rules import rules
from triton_ensemble.facts import catalog
from triton_ensemble.facts.answers import Answers
from triton_ensemble.facts.project import ProjectError

Said = dict[str, Any]
FILE, AGAIN, NEW = "a model that you have", "=", "a new tensor"
SPACE = "(space chooses, Enter ends)"
STAND_IN = "_ FP32[1]"  # for the side of a line that is not answered yet


@dataclass(frozen=True)
class StepQuestion:
    """A question: the key of its answer, how it is shown, with what was typed last, and what refuses an answer."""

    key: str
    show: Callable[[Any], Question]
    check: Callable[[Any], object] = lambda answer: None


def questions(draft: Draft, said: Said) -> Iterator[StepQuestion]:
    """Iterate over the questions about a step, as far as what is said allows to know them."""
    yield _name(draft)
    if not said["name"]:
        return
    yield _backend(draft)
    if said["backend"] == FILE:
        yield _path(draft)
        if folders := models_in(Path(said["path"]).expanduser()):
            yield _model(draft, folders)
    model = model_of(draft, said)
    yield from _reads(draft, said) if model is None else _feeds(draft, said, model)
    yield _writes(draft, said, model)


def line_of(draft: Draft, said: Said, writes: str) -> str:
    """Return the line of a step, of what is said of it."""
    model = model_of(draft, said)
    backend = said["backend"] if model is None or said["backend"] != FILE else model.backend
    return f"{said['name']} {backend}: {_read(said)} -> {writes}"


def model_of(draft: Draft, said: Said) -> GivenModel | None:
    """Return the model of a step if it exists already, or None."""
    backend = str(said["backend"])
    if backend.startswith(AGAIN):
        return _again(draft, backend.removeprefix(AGAIN))
    return read_given_model(origin(said), defaults(draft)) if backend == FILE else None


def origin(said: Said) -> Path:
    """Return the path of a step's model."""
    return Path(str(said.get("model") or said["path"])).expanduser()


def defaults(draft: Draft) -> Defaults:
    """Return the answers of a step that says nothing."""
    answered = rules().questions.values(draft.answers, CHECKS)
    return Defaults(
        answered["gpu_count"], answered["max_batch_size"], answered["max_queue_delay_us"]
    )


def _again(draft: Draft, name: str) -> GivenModel:
    """Return the model of an earlier step."""
    step = next(step for step in draft.steps if step["name"] == name)
    inputs, outputs = (
        [
            DraftTensor(own, bound["type"], bound["dims"])
            if "type" in bound
            else DraftTensor(own, *_split(draft.tensors[str(bound["tensor"])]))
            for own, bound in bindings(step[side]).items()
        ]
        for side in ("inputs", "outputs")
    )
    return GivenModel("", inputs, outputs, {})


def _split(spec: str) -> tuple[str, list[int]]:
    kind, _, dims = spec.rstrip("]").partition("[")
    return kind, [int(dim) for dim in dims.split(",") if dim.strip()]


def _name(draft: Draft) -> StepQuestion:
    number = len(draft.steps) + 1
    end = " Press Enter alone if there are no more steps." if draft.steps else ""
    taken = {step["name"] for step in draft.steps}

    def check(name: str) -> None:
        if not name and draft.steps:
            return
        if not name:
            raise ValueError("write a name, like classify")
        if not re.fullmatch(r"[\w.-]+", name):
            raise ValueError(f"{name}: write letters, digits, _ and -")
        if name in taken:
            raise ValueError(f"{name} is already a step; write another name")
        draft.parse_line(f"{name} python: {STAND_IN} -> _ ")

    return StepQuestion(
        "name", lambda old: questionary.text(f"Step {number}: its name?{end}", old or ""), check
    )


def _backend(draft: Draft) -> StepQuestion:
    choices = [
        Choice("python: your own code", "python"),
        Choice(f"{FILE}: .onnx, TorchScript, or a repository's", FILE),
        *(Choice(f"{each}: its model follows", each) for each in _backends()),
        *(
            Choice(f"the model of {each['name']} again", AGAIN + each["name"])
            for each in draft.steps
            if "model" not in each
        ),
    ]
    return StepQuestion(
        "backend", lambda old: questionary.select("What runs it?", choices, default=old)
    )


def _backends() -> list[str]:
    rows = catalog.backends().items()
    return [name for name, row in rows if row.is_offered and name != "python"]


def _path(draft: Draft) -> StepQuestion:
    def check(path: str) -> None:
        try:
            if not models_in(Path(path).expanduser()):
                read_given_model(Path(path).expanduser(), defaults(draft))
        except (OSError, RuntimeError) as error:  # RuntimeError: ~nobody
            what = getattr(error, "strerror", None) or str(error)
            raise ValueError(f"can't be read ({what}); {WHAT}") from error

    return StepQuestion(
        "path",
        lambda old: questionary.path(
            "Where is it? The .onnx or .pt file, or its folder in a model repository", old or ""
        ),
        check,
    )


def _model(draft: Draft, folders: list[Path]) -> StepQuestion:
    choices = [Choice(folder.name, str(folder)) for folder in folders]
    return StepQuestion(
        "model",
        lambda old: questionary.select("Which of its models?", choices, default=old),
        lambda folder: read_given_model(Path(folder), defaults(draft)),
    )


def _reads(draft: Draft, said: Said) -> Iterator[StepQuestion]:
    """Ask what a step reads whose model is still to come."""
    tensors = draft.tensors
    if tensors:
        labels = {tensor: f"{tensor} {spec}" for tensor, spec in tensors.items()}
        labels[NEW] = f"{NEW}, which requests bring"

        def show(old: Any) -> Question:
            chosen = old or ()
            choices = [
                Choice(label, each, checked=each in chosen) for each, label in labels.items()
            ]
            return questionary.checkbox("What does it read?", choices, instruction=SPACE)

        def check(chosen: list[str]) -> None:
            if not chosen:
                raise ValueError("choose at least one with the space bar")

        yield StepQuestion("known", show, check)
    if NEW in said.get("known", [NEW]):
        yield StepQuestion(
            "new",
            lambda old: questionary.text(
                "What does it read of a request? NAME TYPE[dims], ...", old or ""
            ),
            lambda text: draft.parse_line(f"{said['name']} python: {text} -> {STAND_IN}"),
        )


def _feeds(draft: Draft, said: Said, model: GivenModel) -> Iterator[StepQuestion]:
    """Ask which tensor each input of a model is."""
    for each in model.inputs:
        key = f"input {each.name}"
        fitting = [t for t, spec in draft.tensors.items() if each.takes(*_split(spec))]
        if fitting:
            choices = [Choice(f"{tensor} {draft.tensors[tensor]}", tensor) for tensor in fitting]
            choices.append(Choice(f"{NEW}, which requests bring", NEW))
            question = f"Its input {each.name} {each.spec}: which tensor is that?"
            yield StepQuestion(key, _make_select(question, choices))
        if said.get(key, NEW) == NEW:
            yield _new_input(draft, said, each)


def _make_select(question: str, choices: list[Choice]) -> Callable[[Any], Question]:
    return lambda old: questionary.select(question, choices, default=old)


def _new_input(draft: Draft, said: Said, tensor: DraftTensor) -> StepQuestion:
    start = f"{word(tensor.name)} {tensor.spec}".rstrip()
    return StepQuestion(
        f"new {tensor.name}",
        lambda old: questionary.text(
            f"Its input {tensor.name} in a request: NAME TYPE[dims]?", old or start
        ),
        lambda text: draft.parse_line(
            f"{said['name']} python: {_format_use(tensor.name, text)} -> {STAND_IN}"
        ),
    )


def _format_use(own: str, text: str) -> str:
    """Return the use of a tensor by a model that has a name of its own for it."""
    return text if text.startswith(f"{word(own)} ") or text == word(own) else f"{word(own)}={text}"


def _read(said: Said) -> str:
    """Return the left side of a step's line."""
    uses = [word(tensor) for tensor in said.get("known", []) if tensor != NEW]
    uses += [said["new"]] if "new" in said else []
    for key, answer in said.items():
        kind, _, own = key.partition(" ")
        if kind == "input" and answer != NEW:
            uses.append(_format_use(own, word(answer)))
        elif kind == "new" and own:
            uses.append(_format_use(own, answer))
    return ", ".join(uses)


def _writes(draft: Draft, said: Said, model: GivenModel | None) -> StepQuestion:
    """Ask what a step writes, by which its whole line is known."""
    line = f"{said['name']} python: {_read(said)} -> {STAND_IN}"
    taken = {*draft.tensors, *draft.parse_line(line)["tensors"]}
    start = ", ".join(_output(taken, each) for each in model.outputs) if model else ""
    question = "What does it write? NAME TYPE[dims], ..."
    if model:
        question = "What does it write? MODEL'S NAME=NAME TYPE[dims], ..."
    return StepQuestion(
        "writes",
        lambda old: questionary.text(question, old or start),
        lambda text: add_described_step(draft, {**said, "writes": text}),
    )


def _output(taken: set[str], tensor: DraftTensor) -> str:
    """Return the use of an output by its own name, or by a name that is still free."""
    free = tensor.name
    while free in taken:
        free += "_2"
    own = "" if free == tensor.name else f"{word(tensor.name)}="
    return f"{own}{word(free)} {tensor.spec}".rstrip()


def add_described_step(draft: Draft, said: Said) -> Draft:
    """Return the pipeline with the step that was described, or raise RefusedLine if the template refuses it."""
    model = model_of(draft, said)
    origin_of = str(origin(said).resolve()) if said["backend"] == FILE else ""
    line = line_of(draft, said, said["writes"])
    told = draft.add_line(line, model.settings if model else {}, origin_of)
    if model:
        check_specs(told, told.steps[-1], model)
    return told


def check_files(draft: Draft) -> None:
    """Raise ProjectError if a model's file has other tensors than its step."""
    for step in draft.steps:
        if path := draft.origins.get(step["name"]):
            check_specs(draft, step, read_given_model(Path(path), defaults(draft)))


def check_specs(draft: Draft, step: Answers, model: GivenModel) -> None:
    """Raise ProjectError if a step has a tensor of another type or other dims than its model."""
    for side, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
        uses = bindings(step[side])
        for tensor in tensors:
            use = uses.get(tensor.name, {})
            name = str(use.get("tensor") or tensor.name)
            spec = type_of(use) if "type" in use else draft.tensors.get(name)
            if use and spec and not tensor.takes(*_split(spec)):
                what = f"{name} is {spec}, and {tensor.name} of the model is {tensor.spec}"
                first = next((each for each in draft.steps if name in tensors_of(each)), step)
                raise ProjectError(f"{what}; write {name} {tensor.spec} in step {first['name']}")


def files_of(draft: Draft, said: Said) -> dict[str, Path]:
    """Return the files of a step's model, if one was named, by their paths in models/STEP/."""
    model = model_of(draft, said)
    return model.files if model else {}
