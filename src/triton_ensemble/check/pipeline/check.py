"""A dry check of pipeline.yml: the template's rules on the answers, then the check of the configs they generate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from triton_ensemble.answers import LEFT_OUT, UniqueKeyLoader, answers_of, yaml_problem
from triton_ensemble.check.finding import Finding
from triton_ensemble.check.pipeline.findings import findings_in, generated_repository
from triton_ensemble.check.pipeline.lines import PipelineLines
from triton_ensemble.config import Field, Model
from triton_ensemble.pipeline.rules import Answers, Rules

RULE = "answers"  # of findings that the template's own rules make


def check_pipeline(path: Path) -> list[Finding]:
    """Return what is wrong in a pipeline.yml, by line: what the template refuses, else what Triton would.

    The file need be neither committed nor applied. Raises OSError where it can't be read, and
    RulesError without what renders the template's rules.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        given, root = yaml.load(text, UniqueKeyLoader), yaml.compose(text, Loader=yaml.SafeLoader)
        json.dumps(given, default=str, skipkeys=True)  # a value inside itself
    except yaml.YAMLError as error:
        line, what, instead = yaml_problem(error)
        return [Finding(path, line, RULE, what, instead)]
    except (RecursionError, ValueError) as error:
        return [Finding(path, 1, RULE, f"can't be read: {error}", "quote texts, nest less")]
    if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
        return [Finding(path, 1, RULE, "has no answers", "write `NAME: VALUE`")]
    rules, lines = Rules(), PipelineLines(root)
    answers = _of_project(path, rules) | given
    if problem := rules.problem(answers):
        what, _, instead = problem.partition("; ")
        return [Finding(path, lines.of_problem(problem), RULE, what, instead or "change it")]
    return sorted(set(_of_configs(path, rules.answered(answers), rules, lines)))


def _of_project(path: Path, rules: Rules) -> Answers:
    """Return the answers that an update keeps where pipeline.yml does not have them."""
    kept = set(rules.questions()) - LEFT_OUT.keys()
    return {name: value for name, value in answers_of(path).items() if name in kept}


def _of_configs(
    path: Path, answered: Answers, rules: Rules, lines: PipelineLines
) -> Iterator[Finding]:
    with TemporaryDirectory() as folder:
        configs = rules.rendered(answered)
        repository = generated_repository(Path(folder), answered, configs)
        for each in findings_in(repository):
            name = each.file.parent.name
            fields = _path_to(each.line, repository.models.get(name))
            where = ".".join(field.name for field in fields)
            line = lines.of_model(_step_names(name, answered["graph"]), fields, each.what)
            what = f"model {name}{', ' * bool(where)}{where}: {each.what}"
            yield Finding(path, line, each.rule, what, each.instead, each.severity)


def _path_to(line: int, model: Model | None) -> list[Field]:
    """Return the fields around a line of a model's config, from the outermost on."""
    path: list[Field] = []
    inside = model.fields.inside if model else []
    while before := [field for field in inside if field.line <= line]:
        path.append(before[-1])
        inside = before[-1].inside
    return path


def _step_names(model: str, graph: Answers) -> Iterator[str]:
    """Iterate over the steps that a model may come from: its own, those that share it, that of a copied tensor."""
    yield model
    for each in graph["models"]:
        if each["name"] == model:
            yield from (step["name"] for step in each.get("steps", []))
