"""The findings in configs that the check sees without model files, code and data beside them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from triton_ensemble.check import engine
from triton_ensemble.check.finding import Finding
from triton_ensemble.check.repository import Repository
from triton_ensemble.config import read_models
from triton_ensemble.pipeline.rules import Answers

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
    graph = answered["graph"]
    versions = {each["name"]: each["versions"] for each in graph["models"] + graph["ensembles"]}
    for name, config in configs.items():
        for version in versions.get(name, [1]):
            (folder / name / str(version)).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.pbtxt").write_text(config, encoding="utf-8")
    return Repository(folder, read_models(folder), answered, answered["triton_release"])


def findings_in(repository: Repository) -> list[Finding]:
    """Return what the check finds in generated configs, by file and line."""
    return check_configs(engine.findings_in(repository))
