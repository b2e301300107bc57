"""The findings in configs that the check sees without model files, code and data beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from triton_ensemble.check.finding import Finding
from triton_ensemble.check.pipeline.places import Where, find_place, split_lists
from triton_ensemble.check.repository import Repository
from triton_ensemble.check.rules import engine
from triton_ensemble.compile.graph import Graph
from triton_ensemble.compile.render import render_configs, render_manifests
from triton_ensemble.compile.rules import Rules
from triton_ensemble.facts.answers import Answers
from triton_ensemble.facts.config import read_models

# Rules on the text of a model.py.
CODE_RULES = ("arguments", "class", "execute", "import", "syntax", "version")
OF_CODE = {f"python-{each}" for each in CODE_RULES}


def check_configs(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that would be the same with all files in their places, and all placeholders filled in."""
    return [each for each in findings if each.rule not in OF_CODE and not each.missing]


def write_repository(folder: Path, answered: Answers, configs: dict[str, str]) -> Repository:
    """Write configs to an empty folder, with the version folders that each model has.

    `answered` are the answers they are rendered from, with `graph`.
    """
    graph: Graph = answered["graph"]
    versions = {each["name"]: each["versions"] for each in graph["models"]}
    versions |= {each["name"]: each["versions"] for each in graph["ensembles"]}
    for name, config in configs.items():
        for version in versions.get(name, [1]):
            (folder / name / str(version)).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.pbtxt").write_text(config, encoding="utf-8")
    return Repository(folder, read_models(folder), answered, answered["triton_release"])


def find_in_configs(
    answered: Answers, rules: Rules, project: Path | None = None, is_own: bool = False
) -> Iterator[tuple[Finding, Where | None]]:
    """Iterate over the findings in the configs of answers, with the places that they come from.

    A finding in a file of the `project` comes without a place. If it `is_own`, rules of its team may run.
    """
    rendered = render_configs(rules, answered).items()
    configs = {name: split_lists(config) for name, config in rendered}
    with TemporaryDirectory() as folder:
        repository = write_repository(Path(folder), answered, configs)
        repository.project, repository.is_own = project or Path(folder, ".none"), is_own
        if project:
            for manifest, content in render_manifests(rules, answered).items():
                (repository.folder / manifest).write_text(content, encoding="utf-8")
        for each in findings_in(repository):
            name = each.file.parent.name
            if each.file.is_relative_to(folder):
                yield each, find_place(answered, name, configs.get(name, ""), each.line)
            else:
                yield each, None


def findings_in(repository: Repository) -> list[Finding]:
    """Return what the check finds in generated configs, by file and line."""
    return check_configs(engine.findings_in(repository))
