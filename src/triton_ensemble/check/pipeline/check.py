"""A dry check of pipeline.yml: the template's rules on the answers, then the check of what they generate.

The steps, samples and scripts beside the file are checked against it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from triton_ensemble.check.finding import Finding
from triton_ensemble.check.pipeline.findings import find_in_configs
from triton_ensemble.check.pipeline.lines import PipelineLines
from triton_ensemble.check.pipeline.places import name_place
from triton_ensemble.check.pipeline.problems import list_problems
from triton_ensemble.compile.rules import Mistake, Rules
from triton_ensemble.compile.rules import rules as template_rules
from triton_ensemble.facts.answers import (
    LEFT_OUT,
    Answers,
    UnreadableAnswers,
    answers_of,
    read_answers,
)
from triton_ensemble.facts.project import is_stub_code

RULE = "answers"  # of findings that the template's own rules make
MOST = 10  # of them


def check_pipeline(path: Path, *, is_own: bool = False) -> list[Finding]:
    """Return what is wrong in a pipeline.yml, by line: what is refused of its answers, else what Triton would.

    The file need be neither committed nor applied. Raise OSError if it can't be read, or RulesError if
    what renders the template's rules is missing. If it `is_own`, rules of its team may run.
    """
    if refused := check_answers(path):
        return refused
    (given, root), rules = read_answers(path), template_rules(path.parent)
    answered = rules.answer_unchecked(read_saved_answers(path, rules) | given)
    return sorted(set(_check_configs(path, answered, rules, PipelineLines(root), is_own)))


def check_answers(path: Path) -> list[Finding]:
    """Return what is refused of the answers in a pipeline.yml, by line: the first that do not follow from others."""
    try:
        given, root = read_answers(path)
    except UnreadableAnswers as error:
        return [Finding(path, error.line, RULE, error.what, error.instead)]
    except FileNotFoundError:
        raise
    except OSError as error:
        return [Finding(path, 1, RULE, f"can't be read: {error.strerror}", "make it a text file")]
    rules, lines = template_rules(path.parent), PipelineLines(root)
    problems = list_problems(read_saved_answers(path, rules) | given, rules)
    return sorted(_finding(path, lines, each, rules) for each in islice(problems, MOST))


def _finding(path: Path, lines: PipelineLines, problem: Mistake, rules: Rules) -> Finding:
    rule = problem.args.get("id", RULE)
    return Finding(path, lines.find_line(problem.where), rule, *rules.format_problem(problem))


def read_saved_answers(path: Path, rules: Rules) -> Answers:
    """Return the answers that an update keeps if a pipeline.yml does not have them."""
    kept = set(rules.questions.names) - LEFT_OUT.keys()
    return {name: value for name, value in answers_of(path).items() if name in kept}


def _check_configs(
    path: Path, answered: Answers, rules: Rules, lines: PipelineLines, is_own: bool
) -> Iterator[Finding]:
    for each, where in find_in_configs(answered, rules, path.parent, is_own):
        if where is not None:
            owner, field = name_place(where)
            what = f"{''.join(owner)}{field}{': ' * bool(field)}{each.what}"
            yield replace(each, file=path, line=lines.find_line(where), what=what)
        elif each.rule != "step-signature" or not is_stub_code(each.file):
            yield each  # a stub follows when the answers are applied
