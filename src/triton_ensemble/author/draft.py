"""A pipeline while the user describes it: its answers, and the paths of its steps' models."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from triton_ensemble.check.pipeline.problems import list_problems
from triton_ensemble.compile.file import bindings, tensors_of
from triton_ensemble.compile.flow import format_flow
from triton_ensemble.compile.rules import problems_in, rules
from triton_ensemble.facts.answers import Answers, load_yaml
from triton_ensemble.facts.project import ProjectError
from triton_ensemble.facts.reading import read_bytes

# What a line says of a step, and of a binding; the rest of both comes from elsewhere.
IN_LINES = {"name", "backend", "model", "inputs", "outputs", "instances"}
IN_USES = {"tensor", "type", "dims", "optional"}
# What is wrong with outputs may be right with the next step, which joins them.
OF_OUTPUTS = {
    "decoupled-outputs",
    "exposed-optional",
    "exposed-type",
    "output-unknown",
    "output-unwritten",
    "outputs-optional",
    "partial-output",
}


class RefusedLine(ProjectError):
    """Raised if the template refuses a line of the pipeline, with what is wrong and what to write instead."""


@dataclass(frozen=True)
class Draft:
    """The steps so far, as answers. `origins` has the path of a step's model, if the user gave one."""

    answers: Answers = field(default_factory=lambda: {"starting_pipeline": "my-own"})
    origins: dict[str, str] = field(default_factory=dict)

    @property
    def steps(self) -> list[Answers]:
        """The steps, in the order of the data."""
        steps: list[Answers] = self.answers.get("steps", [])
        return steps

    @property
    def tensors(self) -> dict[str, str]:
        """The type and dims of each known tensor, as TYPE[dims]."""
        return {
            str(tensor): type_of(spec) for tensor, spec in self.answers.get("tensors", {}).items()
        }

    @property
    def text(self) -> str:
        """The pipeline, one line a step, as far as that notation goes."""
        return format_flow(self.answers) if self.steps else ""

    def parse_line(self, line: str) -> Answers:
        """Return the tensors and steps that a line in the notation of `flow` adds.

        Raise RefusedLine if it is not such a line.
        """
        told = flow_parts(line, self.tensors)
        new = {t: spec for t, spec in told["tensors"].items() if t not in self.tensors}
        return {"tensors": new, "steps": told["steps"]}

    def add_line(self, line: str, settings: Answers, origin: str = "") -> Draft:
        """Return the pipeline with one more step, or raise RefusedLine if the template refuses it.

        `settings` are fields of the step, and of its bindings, that a line does not have.
        """
        told = self.parse_line(line)
        step = add_settings(told["steps"][0], settings)
        tensors = {**self.answers.get("tensors", {}), **told["tensors"]}
        answers = {**self.answers, "tensors": tensors, "steps": [*self.steps, step]}
        if isinstance(listed := answers.get("outputs"), list) and listed:
            answers["outputs"] = [*listed, *tensors_of(step, "outputs")]
        origins = {**self.origins, step["name"]: origin} if origin else self.origins
        return Draft(accept_answers(answers), origins)

    def replace_text(self, text: str) -> Draft:
        """Return the pipeline of another text.

        Steps keep settings that a text can't express, unless their backend changes. A step with a new name continues
        the step that was in its place.
        """
        told = flow_parts(text)
        steps, origins = [], {}
        for i, step in enumerate(told["steps"]):
            before = self._find_earlier(step["name"], i, {each["name"] for each in told["steps"]})
            if before.get("backend") == step.get("backend"):
                if before.get("name") in self.origins:
                    origins[step["name"]] = self.origins[before["name"]]
                step = add_settings(step, before)
            steps.append(step)
        parts = {"tensors": told["tensors"], "steps": steps, "outputs": told["outputs"]}
        return Draft(accept_answers({**self.answers, **parts}), origins)

    def _find_earlier(self, name: str, place: int, names: set[str]) -> Answers:
        """Return the earlier form of a step in a new text, or an empty mapping if the step is new."""
        named = [step for step in self.steps if step["name"] == name]
        there = [step for step in self.steps[place : place + 1] if step["name"] not in names]
        return next(iter(named or there), {})

    def drop_last_step(self) -> Draft:
        """Return the pipeline without its last step, if it has one, and without the tensors that only this one names."""
        if not self.steps:
            return self
        *steps, last = self.steps
        named = {tensor for step in steps for tensor in tensors_of(step)}
        tensors = {t: spec for t, spec in self.answers["tensors"].items() if str(t) in named}
        origins = {step: path for step, path in self.origins.items() if step != last["name"]}
        answers = {**self.answers, "tensors": tensors, "steps": steps}
        if "outputs" in answers:
            answers["outputs"] = [each for each in answers["outputs"] if each in tensors]
        return replace(self, answers=answers, origins=origins)

    def save(self, path: Path) -> None:
        """Write what was told, for a later session."""
        content = {"answers": self.answers, "models": self.origins}
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ProjectError(f"{path}: {error.strerror}; name a folder elsewhere") from error

    @classmethod
    def load(cls, path: Path) -> Draft:
        """Read the pipeline that an earlier session saved, or raise ProjectError if the file is damaged."""
        try:
            content = load_yaml(read_bytes(path))
            return cls(
                accept_answers(dict(content["answers"])),
                {str(step): str(origin) for step, origin in content["models"].items()},
            )
        except (
            AttributeError,
            KeyError,
            OSError,
            RecursionError,
            TypeError,
            ValueError,
            yaml.YAMLError,
            RefusedLine,
        ) as error:
            raise ProjectError(
                f"{path}: is not a saved pipeline; remove it to start again"
            ) from error


def add_settings(step: Answers, settings: Answers) -> Answers:
    """Return a step with what a line does not say of it and of its bindings."""
    step = {**step, **{key: value for key, value in settings.items() if key not in IN_LINES}}
    for side in ("inputs", "outputs"):
        more = {
            own: {key: value for key, value in bound.items() if key not in IN_USES}
            for own, bound in bindings(settings.get(side, [])).items()
        }
        if any(more.values()):
            own = bindings(step[side])
            step[side] = {name: {**bound, **more.get(name, {})} for name, bound in own.items()}
    return step


def flow_parts(text: str, known: Answers | None = None) -> Answers:
    """Return the answers of a text in the notation of `flow`, or raise RefusedLine if it is not in this notation.

    A text that goes on after `known` tensors is a single line.
    """
    told: Answers = json.loads(rules().templates.macro("flow", "flow_parts")(text, known or {}))
    if problems := problems_in(told["problems"]):
        place = problems[0].place if known is None else []
        raise RefusedLine(rules().line(problems[0]._replace(place=place)))
    return told


def accept_answers(answers: Answers, whole: bool = False) -> Answers:
    """Return answers that the template accepts, or raise RefusedLine if it does not accept them.

    Unless they are the `whole` pipeline, its outputs may have problems.
    """
    first = next(list_problems(answers, rules()), None)
    if first and (whole or first.rule not in OF_OUTPUTS):
        raise RefusedLine(rules().line(first))
    return answers


def type_of(spec: Any) -> str:
    """Return the TYPE[dims] of a tensor of pipeline.yml."""
    return spec if isinstance(spec, str) else f"{spec['type']}{spec['dims']}"
