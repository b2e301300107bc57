"""The reasons to refuse a repository: Triton refuses it, or the template can't express it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from triton_ensemble.check.finding import Finding
from triton_ensemble.check.pipeline.findings import check_configs
from triton_ensemble.check.pipeline.problems import list_problems
from triton_ensemble.check.repository import Repository
from triton_ensemble.compile.rules import rules
from triton_ensemble.facts.answers import Answers
from triton_ensemble.facts.config import Model, UnreadModel
from triton_ensemble.facts.reading import is_outside, read_text
from triton_ensemble.facts.terminal import escape_line

SERVED = {"batching-lost", "optional-chain"}  # warnings that an owner must know of
UNTRANSLATABLE = {"tensor-twice"}  # warnings: a table of tensors by name would drop one


class Refused(Exception):
    """Raised for a repository that Triton would refuse. The line has the place, the mistake and the remedy."""

    def __init__(self, where: str, what: str, instead: str) -> None:
        super().__init__(escape_line(f"{where}: {what}; {instead}".replace("\n", " ")))


def config_of(folder: str) -> str:
    """Return the path of a model's config in its repository."""
    return f"{folder}/config.pbtxt"


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """Return what Triton refuses of a repository, files that may be missing aside."""
    return [
        finding
        for finding in check_configs(findings)
        if finding.severity == "error" or finding.rule in UNTRANSLATABLE
    ]


def warnings(findings: Iterable[Finding], models: Collection[str]) -> Iterator[str]:
    """Iterate over lines on what is served as it is, though not for each request."""
    for finding in findings:
        name = finding.file.parent.name
        if finding.rule in SERVED and name in models:
            yield f"{config_of(name)}:{finding.line}: {finding.what}; {finding.instead}"


def list_unread_pipelines(repository: Repository, wanted: str) -> list[str]:
    """Return the folders whose config may be the pipeline's, but can't be read: all if none can be read."""
    unread = {name: each for name, each in repository.folders.items() if not _is_read(each)}
    if not repository.models:
        return [*unread]
    return [
        name for name, each in unread.items() if (name == wanted if wanted else _may_wire(each))
    ]


def _is_read(model: Model | UnreadModel) -> bool:
    return isinstance(model, Model) and model.config.backend != "ensemble"


def _may_wire(model: Model | UnreadModel) -> bool:
    with suppress(OSError):
        inside = model.has_config and not is_outside(model.path, model.folder.parent)
        return inside and "ensemble" in read_text(model.path)
    return False


def refuse_first(findings: Iterable[Finding], models: Collection[str]) -> None:
    """Raise Refused for the first finding in these models."""
    for finding in findings:
        name = finding.file.parent.name
        if name in models:
            where = f"{name}/{finding.file.name}:{finding.line}"
            raise Refused(where, finding.what, finding.instead)


def refuse_namespaces(ensembles: Iterable[Model]) -> None:
    """Raise Refused for a step's `model_namespace`, which Triton reserves and the grammar lacks a field for."""
    for ensemble in ensembles:
        for step in ensemble.steps:
            if step.model_namespace:
                what = f"the step of {step.model_name} has a model_namespace, which is reserved"
                raise Refused(config_of(ensemble.name), what, "take it out")


def refuse_answers(answers: Answers, ensemble: Model, models: Collection[str]) -> None:
    """Raise Refused for what the template refuses of the answers, at the config that is to be changed."""
    if problem := next(list_problems(answers, rules()), None):
        folder = ensemble.name
        if problem.where[:1] == ["steps"] and problem.where[1] in models:
            problem, folder = problem._replace(place=problem.place[1:]), str(problem.where[1])
        what, instead = rules().format_problem(problem)
        raise Refused(config_of(folder), what, instead or "change it")
