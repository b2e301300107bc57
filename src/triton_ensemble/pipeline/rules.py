"""The template's own rules on answers: `copier.yml` and `hooks/*.jinja`, rendered as Copier renders them.

A rule that a prompt can lead to can't be Python, because Copier does not run the code of a template that the user has
not trusted. The wheel carries these files; a clone of the template has them at its root.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from triton_ensemble.catalog import LOADER, template_root
from triton_ensemble.project import ProjectError
from triton_ensemble.terminal import OneLine

if TYPE_CHECKING:
    from jinja2 import Template

    from triton_ensemble.pipeline.environment import TeamEnvironment, TrustedEnvironment

Answers = dict[str, Any]

CHECKS = ("given", "graph", "team_files")  # questions that refuse
# The template of a config by the list of `graph` whose items it is rendered for, and what it calls one.
CONFIGS = {
    "copies": ("copy", "hooks/configs/copy.pbtxt.jinja"),
    "models": ("model", "hooks/configs/model.pbtxt.jinja"),
    "ensembles": ("this", "hooks/configs/ensemble.pbtxt.jinja"),
}


class RulesError(ProjectError):
    """Raised where the template's rules can't be rendered: what is missing, how to get it."""


class Problem(NamedTuple):
    """A problem that a rule of the template finds in answers (hooks/problems.jinja), without words."""

    rule: str
    where: list[str | int]  # the path to it in the answers
    args: Answers  # of the rule's words
    near: str  # what may have been meant
    place: list[str]  # how a sentence names it
    inner: list[str] | None = None

    def move_into(self, where: list[str | int], place: str) -> Problem:
        """Return the problem of a part as a problem of the whole: where the part is, and how a sentence names it."""
        return self._replace(where=where + self.where, place=[place, *self.place])

    def move_into_step(self, name: str) -> Problem:
        """Return the problem as a problem of a step of the pipeline."""
        return self.move_into(["steps", name], f"step {name}: ")


class RefusedAnswers(OneLine):
    """Raised where the template refuses answers, with its line: where, what, what to write instead."""


class Rules:
    """The rules of one version of the template, by default this package's own.

    `vendor` has what the team of a fork says, if the fork has a team.
    """

    def __init__(self, root: Path | None = None, vendor: Path | None = None) -> None:
        self.root, self.vendor = root or template_root(), vendor
        self._folders = [self.root, vendor] if vendor else [self.root]
        self._graph_of = self._graph_text = ""

    def problem(self, given: Answers) -> str:
        """Return the template's line on the first thing that it refuses of the answers; empty: it accepts them."""
        try:
            self.answer(given)
        except RefusedAnswers as refused:
            return str(refused)
        return ""

    def answer(self, given: Answers) -> Answers:
        """Return the value of each question, `graph` among them, as `copier copy --defaults` has it.

        RefusedAnswers where the template refuses them.
        """
        problems = self.problems_of_form(given)
        answers = {} if problems else self.answer_unchecked(given)
        if problems := problems or self.problems_of_wiring(answers):
            raise RefusedAnswers(self.line(problems[0]))
        return answers

    def select_answers(self, made: Mapping[str, Any]) -> Answers:
        """Return the answers to questions among what .copier-answers.yml has."""
        return {name: made[name] for name in self.questions() if name in made}

    def problems_of_form(self, given: Answers) -> list[Problem]:
        """Return what is wrong with the form of answers."""
        return problems_in(self.macro("questions", "answers_problems")(given, list(given)))

    def problems_of_wiring(self, answers: Answers, whole: bool = True) -> list[Problem]:
        """Return what is wrong with a pipeline, of answers with `graph`; `whole`: it has all its steps."""
        wrong = self.macro("validate/pipeline", "pipeline_problems")
        return problems_in(wrong(answers["graph"], answers, whole))

    def format_problem(self, problem: Problem) -> tuple[str, str]:
        """Return where and what is wrong, and what to write instead."""
        what, instead = json.loads(self.macro("problems", "in_words")(problem._asdict()))
        return what, instead

    def line(self, problem: Problem) -> str:
        """Return a problem in one line."""
        return "; ".join(filter(None, self.format_problem(problem)))

    def answer_unchecked(self, given: Answers) -> Answers:
        """Return the same as `answer`, even of answers whose wiring is refused."""
        answers = self.values(given, CHECKS)
        return {**answers, "graph": json.loads(self._compute_graph(answers))}

    def _compute_graph(self, answers: Answers) -> str:
        """Return the graph of answers as JSON. The last one is kept, because a command asks for it several times."""
        if self._graph_of != (key := repr(answers)):
            self._graph_text, self._graph_of = self.macro("graph/graph", "graph")(answers), key
        return self._graph_text

    def render_configs(self, answered: Answers) -> dict[str, str]:
        """Return each config.pbtxt by its model's name, of answers with their `graph`."""
        return {
            item["name"]: self.template(template).render({**answered, word: item})
            for part, (word, template) in CONFIGS.items()
            for item in answered["graph"][part]
        }

    def manifests(self, answered: Answers) -> dict[str, str]:
        """Return each step.json by its path in the model repository, of answers with their `graph`."""
        [path] = self.root.glob("template/model_repository/*/*/step.json.jinja")
        template = self.template(path.relative_to(self.root).as_posix())
        return {
            f"{model['name']}/{version}/step.json": template.render({**answered, "model": model})
            for model in answered["graph"]["python_models"]
            for version in model["versions"]
        }

    def default(self, question: str) -> Any:
        """Return what a question has where nothing is answered."""
        return self._defaults[question]

    def macro(self, file: str, name: str) -> Any:
        """Return a macro or a table that `hooks/FILE.jinja` defines."""
        environment = self._environment
        from jinja2 import TemplateError

        try:
            return getattr(environment.get_template(f"hooks/{file}.jinja").module, name)
        except TemplateError as error:  # of the only text that is not the package's own
            raise RulesError(f"vendor/team/team.yml: {error}; correct it") from error

    def template(self, name: str) -> Template:
        """Return a file of the template, to be rendered."""
        return self._environment.get_template(name)

    def render(self, source: str, context: Mapping[str, Any]) -> str:
        """Return what a text of template language makes of variables."""
        return self._compile_default(source).render(context)

    def evaluate(self, expression: str, context: Mapping[str, Any]) -> Any:
        """Return the value of an expression of template language."""
        return self._environment.compile_expression(expression)(**context)

    def select_recorded(self, answered: Answers) -> Answers:
        """Return the answers that Copier records: without questions that are computed or skipped."""
        return {
            name: answered[name]
            for name, question in self._questions()
            if _cast("yaml", self.render(str(question.get("when", True)), answered))
        }

    def questions(self) -> list[str]:
        """Return the names of the questions, also the ones never asked."""
        return [name for name, _ in self._questions()]

    def values(self, given: Answers, left_out: Collection[str]) -> Answers:
        """Return the value of each question: the user's answer or the default."""
        known = {name: given[name] for name, _ in self._questions() if name in given}
        answers: Answers = {"_copier_answers": known, "_copier_conf": {"data": given}, **given}
        for name, question in self._questions():
            if name in given and question.get("when") is not False:
                answers[name] = known[name] = _cast(question["type"], given[name])
            elif name not in left_out:
                answers[name] = known[name] = self._value(question, answers)
        return answers

    def _questions(self) -> Iterator[tuple[str, Any]]:
        return ((name, asked) for name, asked in self._copier.items() if not name.startswith("_"))

    def _value(self, question: Mapping[str, Any], context: Answers) -> Any:
        """Return what a question has where nothing answers it."""
        if not isinstance(question["default"], str):
            return question["default"]
        text = self.render(question["default"], context)
        kind = "yaml" if question.get("multiselect") else question["type"]
        return json.loads(text) if kind == "json" else _cast(kind, text)

    @cached_property
    def _defaults(self) -> Answers:
        return self.values({}, CHECKS)

    @cached_property
    def _copier(self) -> dict[str, Any]:
        path = self.root / "copier.yml"
        try:
            questions: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), LOADER)
        except OSError as error:
            raise RulesError(f"{path}: {error.strerror}; install the package again") from error
        return questions

    @cached_property
    def _environment(self) -> TrustedEnvironment | TeamEnvironment:
        """Jinja as Copier sets it up for this template. The texts of a team are not the package's own, so they get a sandbox."""
        try:
            from jinja2 import FileSystemLoader, StrictUndefined

            from triton_ensemble.pipeline.environment import (
                CompiledTemplates,
                TeamEnvironment,
                TrustedEnvironment,
            )

            is_ours = self.root == template_root() and len(self._folders) == 1
            return (TrustedEnvironment if is_ours else TeamEnvironment)(
                loader=FileSystemLoader(self._folders),
                extensions=["jinja2_ansible_filters.AnsibleCoreFiltersExtension"],
                **{**self._copier["_envops"], "undefined": StrictUndefined},
                keep_trailing_newline=True,
                auto_reload=False,
                bytecode_cache=CompiledTemplates() if is_ours else None,
            )
        except ModuleNotFoundError as error:
            what = f"{error.name} is missing, which the rules on pipeline.yml need"
            raise RulesError(f"{what}; run: pip install 'triton-ensemble[answers]'") from error

    @cached_property
    def _sources(self) -> dict[str, Template]:
        return {}

    def _compile_default(self, source: str) -> Template:
        """Compile a question's default, once."""
        if source not in self._sources:
            self._sources[source] = self._environment.from_string(source)
        return self._sources[source]


def problem(rule: str, *where: str | int, near: str = "", **args: Any) -> Problem:
    """Return what a rule says of the part of what it looks at that is at a path."""
    return Problem(rule, list(where), args, near, [])


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return the choice that a word may stand for; empty where none is like it."""
    return str(rules().macro("problems", "nearest")(word, list(choices)))


def problems_in(lines: str) -> list[Problem]:
    """Return the problems of which macros of the template print one a line."""
    return [Problem(**json.loads(line)) for line in lines.splitlines() if line.strip()]


def _cast(kind: str, value: Any) -> Any:
    """Return a value of a question's type; a text is read as Copier reads it."""
    if not isinstance(value, str) or kind == "str":
        return value
    return int(value) if kind == "int" else yaml.safe_load(value)


def rules(project: Path = Path()) -> Rules:
    """Return the rules of this package's own version of the template, with what the project's team says."""
    vendor = Path(os.path.realpath(project / "vendor"))
    return rules_with(vendor if (vendor / "team").is_dir() else None)


@cache
def rules_with(vendor: Path | None) -> Rules:
    """Return the same rules with a team's rules in `vendor`."""
    return Rules(vendor=vendor)
