"""What adopt.py says when it can't go on, and what it asks the template's own hooks."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jinja2 import FileSystemLoader, StrictUndefined, UndefinedError
from jinja2.sandbox import SandboxedEnvironment

ROOT = Path(__file__).resolve().parents[2]

# How Jinja says what a question of copier.yml refuses: as a name that is not defined.
UNDEFINED = "'dict object' has no attribute "


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


def variable(file: str, name: str) -> Any:
    """What the template's hooks define: a table or a macro."""
    return getattr(environment().get_template(f"hooks/{file}.jinja").module, name)


def nearest(word: str, choices: Iterable[str], otherwise: str) -> str:
    """`did you mean X?` where one of the choices is near, else the other remedy."""
    found = str(variable("nearest", "did_you_mean")(word, list(choices)))
    return found.removeprefix("; ") or otherwise


def identifier(name: str) -> str:
    return str(variable("names", "identifier")(name))


def default(asked: dict[str, Any], context: dict[str, Any]) -> Any:
    """A question's, as Copier takes it."""
    if isinstance(asked["default"], list):
        return asked["default"]
    text = environment().from_string(str(asked["default"])).render(context)
    return text if asked["type"] == "str" else yaml.safe_load(text)


def problem(question: str, answers: dict[str, Any]) -> str:
    """What a question of copier.yml that checks the answers says of them; empty: nothing."""
    questions = yaml.safe_load((ROOT / "copier.yml").read_text())
    context = {"_copier_answers": answers, "_copier_conf": {"data": answers}, **answers}
    for name, asked in questions.items():
        if not name.startswith("_") and asked.get("when", True) and name not in answers:
            context[name] = default(asked, context)
    try:
        environment().from_string(questions[question]["default"]).render(context)
    except UndefinedError as error:
        if not str(error).startswith(UNDEFINED):
            raise
        return str(literal_eval(str(error).removeprefix(UNDEFINED)))
    return ""
