"""What adopt.py says when it can't go on, and what it asks the template's own hooks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jinja2 import FileSystemLoader, StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

ROOT = Path(__file__).resolve().parents[2]

SHAPES = (
    "{% from 'hooks/answers.jinja' import answers, keys with context %}"
    "{% from 'hooks/validate.jinja' import given %}{{ given(answers, keys) }}"
)
WIRING = (
    "{% from 'hooks/answers.jinja' import answers with context %}"
    "{% from 'hooks/graph.jinja' import graph %}{% from 'hooks/wiring.jinja' import wiring %}"
    "{{ wiring(graph(answers) | from_json, answers) }}"
)


class Refused(Exception):
    """A repository that Triton would refuse: where, what is wrong, what to write instead."""

    def __init__(self, where: str, what: str, instead: str) -> None:
        super().__init__(f"{where}: {what}; {instead}".replace("\n", " "))


def config_of(folder: str) -> str:
    return f"{folder}/config.pbtxt"


@cache
def environment() -> SandboxedEnvironment:
    """Jinja as Copier sets it up for this template."""
    return SandboxedEnvironment(
        loader=FileSystemLoader(ROOT),
        extensions=["jinja2_ansible_filters.AnsibleCoreFiltersExtension"],
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def catalog(name: str) -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = yaml.safe_load(
        (ROOT / "hooks" / "catalog" / f"{name}.yml").read_text()
    )
    return table


def macro(file: str, name: str, *args: Any) -> str:
    """What a macro of the template's hooks prints."""
    module = environment().get_template(f"hooks/{file}.jinja").module
    return str(getattr(module, name)(*args)).strip()


def nearest(word: str, choices: Iterable[str], otherwise: str) -> str:
    """`did you mean X?` where one of the choices is near, else the other remedy."""
    return macro("nearest", "did_you_mean", word, list(choices)).removeprefix("; ") or otherwise


def identifier(name: str) -> str:
    return macro("names", "identifier", name)


def with_defaults(answers: dict[str, Any]) -> dict[str, Any]:
    """The answers, with the default of each question that they leave out."""
    found = dict(answers)
    questions = yaml.safe_load((ROOT / "copier.yml").read_text())
    for name, question in questions.items():
        if not name.startswith("_") and question.get("when", True) and name not in found:
            text = environment().from_string(str(question["default"])).render(found)
            found[name] = text if question["type"] == "str" else yaml.safe_load(text)
    return found


def problem(check: str, answers: dict[str, Any]) -> str:
    """What one of the template's checks says of the answers; empty: nothing."""
    context = {**with_defaults(answers), "_copier_conf": {"data": answers}}
    return environment().from_string(check).render(context).strip()
