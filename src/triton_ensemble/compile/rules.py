"""The template's own rules on answers: `copier.yml` and `hooks/*.jinja`, rendered as Copier renders them.

A rule that a prompt can lead to can't be Python, because Copier does not run the code of a template that the user has
not trusted. The wheel carries these files, and a clone of the template has them at its root.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from triton_ensemble.compile.questions import CHECKS, Questions
from triton_ensemble.compile.templates import Templates
from triton_ensemble.facts.answers import Answers
from triton_ensemble.facts.terminal import OneLine


class Mistake(NamedTuple):
    """A mistake that a rule finds in answers (hooks/problems.jinja, check/pipeline/rules), without its words."""

    rule: str
    where: list[str | int]  # the path to it in the answers
    args: Answers  # of the rule's words
    near: str  # what may have been meant
    place: list[str]  # how a sentence names it
    inner: list[str] | None = None

    def move_into(self, where: list[str | int], place: str) -> Mistake:
        """Return the problem of a part as a problem of the whole.

        `where` is the path to the part, and `place` is how a sentence names it.
        """
        return self._replace(where=where + self.where, place=[place, *self.place])

    def move_into_step(self, name: str) -> Mistake:
        """Return the problem as a problem of a step of the pipeline."""
        return self.move_into(["steps", name], f"step {name}: ")


class RefusedAnswers(OneLine):
    """Raised if the template refuses answers, with its line: the place, what is wrong and what to write instead."""


class Rules:
    """The rules of one version of the template, by default this package's own.

    `vendor` has what the team of a fork says, if the fork has a team.
    """

    def __init__(self, root: Path | None = None, vendor: Path | None = None) -> None:
        self.templates = Templates(root, vendor)
        self.questions = Questions(self.templates)
        self._graph_of = self._graph_text = ""

    def problem(self, given: Answers) -> str:
        """Return the template's line on the first answer that it refuses, or an empty text if it accepts all."""
        try:
            self.answer(given)
        except RefusedAnswers as refused:
            return str(refused)
        return ""

    def answer(self, given: Answers) -> Answers:
        """Return the value of each question, `graph` among them, as `copier copy --defaults` has it.

        Raise RefusedAnswers if the template refuses them.
        """
        problems = self.problems_of_form(given)
        answers = {} if problems else self.answer_unchecked(given)
        if problems := problems or self.problems_of_wiring(answers):
            raise RefusedAnswers(self.line(problems[0]))
        return answers

    def problems_of_form(self, given: Answers) -> list[Mistake]:
        """Return what is wrong with the form of answers."""
        return problems_in(
            self.templates.macro("questions", "answers_problems")(given, list(given))
        )

    def problems_of_wiring(self, answers: Answers, whole: bool = True) -> list[Mistake]:
        """Return what is wrong with a pipeline, of answers with `graph`. If `whole`, it has all its steps."""
        wrong = self.templates.macro("validate/pipeline", "pipeline_problems")
        return problems_in(wrong(answers["graph"], answers, whole))

    def format_problem(self, problem: Mistake) -> tuple[str, str]:
        """Return the place and what is wrong, and what to write instead."""
        what, instead = json.loads(self.templates.macro("problems", "in_words")(problem._asdict()))
        return what, instead

    def line(self, problem: Mistake) -> str:
        """Return a problem in one line."""
        return "; ".join(filter(None, self.format_problem(problem)))

    def answer_unchecked(self, given: Answers) -> Answers:
        """Return the same as `answer`, even of answers whose wiring is refused."""
        answers = self.questions.values(given, CHECKS)
        return {**answers, "graph": json.loads(self._compute_graph(answers))}

    def _compute_graph(self, answers: Answers) -> str:
        """Return the graph of answers as JSON. The last one is kept, because a command asks for it several times."""
        if self._graph_of != (key := repr(answers)):
            self._graph_text, self._graph_of = (
                self.templates.macro("graph/graph", "graph")(answers),
                key,
            )
        return self._graph_text


def mistake(rule: str, *where: str | int, near: str = "", **args: Any) -> Mistake:
    """Return the mistake that a rule finds at a path in what it looks at."""
    return Mistake(rule, list(where), args, near, [])


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return the choice that a word may stand for, or an empty text if none is like it."""
    return str(rules().templates.macro("problems", "nearest")(word, list(choices)))


def problems_in(lines: str) -> list[Mistake]:
    """Return the problems that macros of the template print, one per line."""
    return [Mistake(**json.loads(line)) for line in lines.splitlines() if line.strip()]


def rules(project: Path = Path()) -> Rules:
    """Return the rules of this package's own version of the template, with what the project's team says."""
    vendor = Path(os.path.realpath(project / "vendor"))
    return rules_with(vendor if (vendor / "team").is_dir() else None)


@cache
def rules_with(vendor: Path | None) -> Rules:
    """Return the rules of this package's own version of the template, with a team's rules in `vendor`."""
    return Rules(vendor=vendor)
