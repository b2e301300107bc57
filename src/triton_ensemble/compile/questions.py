"""The questions of `copier.yml`: what each has for an answer, and which answers are kept."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

import yaml

from triton_ensemble.compile.templates import Templates
from triton_ensemble.facts.answers import Answers

CHECKS = ("given", "graph", "team_files")  # questions that refuse


class Questions:
    """The questions of one version of the template."""

    def __init__(self, templates: Templates) -> None:
        self._templates = templates

    @property
    def names(self) -> list[str]:
        """The names of the questions, also of the ones never asked."""
        return [*self._asked]

    def select_answers(self, made: Mapping[str, Any]) -> Answers:
        """Return the answers to questions among what .copier-answers.yml has."""
        return {name: made[name] for name in self.names if name in made}

    def default(self, question: str) -> Any:
        """Return the value of a question if nothing is answered."""
        return self._defaults[question]

    def values(self, given: Answers, left_out: Collection[str]) -> Answers:
        """Return the value of each question: the user's answer or the default."""
        known = {name: given[name] for name in self.names if name in given}
        answers: Answers = {"_copier_answers": known, "_copier_conf": {"data": given}, **given}
        for name, question in self._asked.items():
            if name in given and question.get("when") is not False:
                answers[name] = known[name] = self._in_order(
                    question, _cast(question["type"], given[name])
                )
            elif name not in left_out:
                answers[name] = known[name] = self._value(question, answers)
        return answers

    def _value(self, question: Mapping[str, Any], context: Answers) -> Any:
        """Return the value of a question that is not answered."""
        if not isinstance(question["default"], str):
            return question["default"]
        text = self._templates.render(question["default"], context)
        kind = "yaml" if question.get("multiselect") else question["type"]
        return json.loads(text) if kind == "json" else _cast(kind, text)

    def _in_order(self, question: Mapping[str, Any], value: Any) -> Any:
        """Return an answer of several choices in their order, as Copier records it."""
        if not question.get("multiselect") or not isinstance(value, list):
            return value
        choices = [*yaml.safe_load(self._templates.render(question["choices"], {})).values()]
        return sorted(
            value, key=lambda each: choices.index(each) if each in choices else len(choices)
        )

    def select_recorded(self, answered: Answers) -> Answers:
        """Return the answers that Copier records: without questions that are computed or skipped."""
        return {
            name: answered[name]
            for name, question in self._asked.items()
            if _cast("yaml", self._templates.render(str(question.get("when", True)), answered))
        }

    @cached_property
    def _asked(self) -> dict[str, Any]:
        asked = self._templates.copier.items()
        return {name: question for name, question in asked if not name.startswith("_")}

    @cached_property
    def _defaults(self) -> Answers:
        return self.values({}, CHECKS)


def _cast(kind: str, value: Any) -> Any:
    """Return a value of a question's type. A text is read as Copier reads it."""
    if not isinstance(value, str) or kind == "str":
        return value
    return int(value) if kind == "int" else yaml.safe_load(value)
