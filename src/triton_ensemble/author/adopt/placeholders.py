"""`${NAME}` in configs: which ones lack a value, and the configs with the values that a user gives."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from triton_ensemble.author.adopt.refusal import Refused, config_of, refuse_first
from triton_ensemble.check.finding import Finding
from triton_ensemble.check.repository import Repository
from triton_ensemble.facts.config import (
    Model,
    Problem,
    UnreadModel,
    did_you_mean,
)
from triton_ensemble.facts.config.fields import fields_of
from triton_ensemble.facts.config.syntax import (
    QUOTED,
    ConfigSyntaxError,
    parse,
    readable,
)
from triton_ensemble.facts.reading import is_outside, read_text

PLACEHOLDER = re.compile(r"\$\{([^\s{}]+)\}")
WHAT, INSTEAD = "has placeholders without a value: {}", "add --set NAME=VALUE for each"
Folders = dict[str, Model | UnreadModel]


def fill(folders: Folders, values: Mapping[str, str]) -> None:
    """Fill the values into the configs as they were read. Raise Refused for a name that no config has."""
    texts = {name: text for name, each in folders.items() if (text := _read(each))}
    known = [match[1] for text in texts.values() for match in PLACEHOLDER.finditer(text)]
    for name in sorted(values.keys() - {*known}):
        what = "is not a placeholder of any config"
        raise Refused(f"--set {name}", what, did_you_mean(name, known, "take it out"))
    for name, text in texts.items():
        filled = PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)
        if filled != text:
            folders[name] = _parse(folders[name], filled)


def _read(model: Model | UnreadModel) -> str:
    with suppress(OSError):
        if model.has_config and not is_outside(model.path, model.folder.parent):
            return read_text(model.path)
    return ""


def _parse(model: Model | UnreadModel, text: str) -> Model | UnreadModel:
    text = readable(text)
    try:
        return Model(model.folder, parse(text), fields_of(text))
    except ConfigSyntaxError as error:
        problem = Problem(model.path, error.line, error.what, error.instead)
        return UnreadModel(model.folder, problem)


def refuse_unread(
    repository: Repository,
    values: Mapping[str, str],
    findings: Iterable[Finding],
    models: Collection[str],
) -> None:
    """Raise Refused for the first finding in these models, but before for placeholders, because of which they can't be read."""
    _refuse_bare(repository.folders, values, models)
    refuse_first(findings, models)


def _refuse_bare(folders: Folders, values: Mapping[str, str], models: Collection[str]) -> None:
    """Raise Refused for a placeholder in one of the models, with those of all that can't be read."""
    found: dict[str, tuple[str, str]] = {}  # by name, the folder and the place of the first
    for folder in sorted(folders, key=lambda name: name not in models):
        if isinstance(each := folders[folder], UnreadModel):
            for line, name in _iter_bare(_read(each)):
                found.setdefault(name, (folder, f"{config_of(folder)}:{line}"))
    missing = [name for name in found if name not in values]
    if missing and found[missing[0]][0] in models:
        raise Refused(found[missing[0]][1], WHAT.format(", ".join(missing)), INSTEAD)


def _iter_bare(text: str) -> Iterator[tuple[int, str]]:
    """Iterate over the lines and names of placeholders outside of strings and comments, which Triton can't read."""
    bare = QUOTED.sub(lambda quoted: " " * len(quoted[0]), text)
    for match in PLACEHOLDER.finditer(bare):
        yield bare.count("\n", 0, match.start()) + 1, match[1]


def find_quoted(model: Model) -> Iterator[str]:
    """Yield a line on the placeholders in texts of a config, but for the backend's."""
    found = dict.fromkeys(PLACEHOLDER.findall(str(model.config)))
    if names := [name for name in found if f"${{{name}}}" != model.config.backend]:
        what = WHAT.format(", ".join(names))
        yield f"{model.name}: {what}; {INSTEAD}, or write the values in pipeline.yml"
