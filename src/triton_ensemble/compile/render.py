"""Renders a project's managed files from its answers, as Copier does, with this package's own version of the template."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from triton_ensemble.compile.rules import Rules
from triton_ensemble.compile.templates import RulesError
from triton_ensemble.facts.answers import Answers
from triton_ensemble.facts.reading import iter_files

SUFFIX = ".jinja"
# A part of a path that Copier renders once for each item of a list.
YIELD = re.compile(r"(.*)\{% yield (\w+) from (.+?) %\}(.*)\{% endyield %\}(.*)")
# What only `copier copy` and `copier update` write: the package itself, and files of examples that projects own.
LEFT_OUT = (
    "vendor/*.whl",
    "vendor/requirements.txt",
    "requirements*.lock.jinja",
    "*example_files*",
    "vendor/*graph.team*",  # a link to team/, which only forks have
)


# The template of a config by the list of `graph` whose items it is rendered for, and what it calls one.
CONFIGS = {
    "copies": ("copy", "hooks/configs/copy.pbtxt.jinja"),
    "models": ("model", "hooks/configs/model.pbtxt.jinja"),
    "ensembles": ("this", "hooks/configs/ensemble.pbtxt.jinja"),
}


class File(NamedTuple):
    """A rendered file."""

    content: bytes
    source: str  # its path in template/


def render(rules: Rules, answers: Answers, made_from: Answers) -> dict[str, File]:
    """Return the files of a project by path, with the origin that `made_from` names in .copier-answers.yml.

    Raise RefusedAnswers if the template refuses the answers.
    """
    answered = rules.answer(answers)
    source = {name: made_from[name] for name in ("_commit", "_src_path") if name in made_from}
    context = {
        **answered,
        "_copier_answers": source | rules.questions.select_recorded(answered),
        "_copier_conf": {"answers_file": ".copier-answers.yml", "data": {}, "dst_path": "."},
        "_copier_operation": "copy",
    }
    unneeded = rules.templates.render(
        "{% include 'hooks/exclude/unneeded.jinja' %}", context
    ).split()
    root = rules.templates.root / "template"
    return {
        path: File(_content(rules, root / name, inner), name)
        for name in list_templates(root)
        for path, inner in _paths(rules, name.removesuffix(SUFFIX).split("/"), context)
        if not _matches(path, unneeded)
    }


def render_project(rules: Rules, answers: Answers, made_from: Answers) -> dict[str, File]:
    """Return the files as `render` does, with the team's folder, which Copier copies if the team says something."""
    files = render(rules, answers, made_from)
    if not rules.templates.vendor or not rules.answer(answers)["graph"]["team"]["given"]:
        return files
    paths = (
        path.relative_to(rules.templates.vendor)
        for path in iter_files(rules.templates.vendor / "team")
    )
    team = {f"vendor/{path.as_posix()}": path for path in paths if _is_copied(path)}
    return files | {
        name: File((rules.templates.vendor / path).read_bytes(), f"vendor/{path.as_posix()}")
        for name, path in team.items()
    }


def render_configs(rules: Rules, answered: Answers) -> dict[str, str]:
    """Return each config.pbtxt by its model's name, of answers with their `graph`."""
    return {
        item["name"]: rules.templates.template(template).render({**answered, word: item})
        for part, (word, template) in CONFIGS.items()
        for item in answered["graph"][part]
    }


def render_manifests(rules: Rules, answered: Answers) -> dict[str, str]:
    """Return each step.json by its path in the model repository, of answers with their `graph`."""
    [path] = rules.templates.root.glob("template/model_repository/*/*/step.json.jinja")
    template = rules.templates.template(path.relative_to(rules.templates.root).as_posix())
    return {
        f"{model['name']}/{version}/step.json": template.render({**answered, "model": model})
        for model in answered["graph"]["python_models"]
        for version in model["versions"]
    }


def _is_copied(path: Path) -> bool:
    """Return whether Copier copies a file of team/, as hooks/exclude/unneeded.jinja lists."""
    _, *folders, name = path.parts
    if path.suffix in (".pyc", ".pyo") or (not folders and name == "README.md"):
        return False
    return len(folders) < 2 or folders[0] != "examples" or [*folders[2:], name] == ["pipeline.yml"]


def write_files(files: Mapping[str, File], folder: Path) -> None:
    """Write rendered files into a folder."""
    for path, file in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)


def list_templates(root: Path) -> Iterator[str]:
    """Yield the paths of the files in template/ that are rendered. Links lead to files of examples."""
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            path = Path(folder, name).relative_to(root).as_posix()
            if not _matches(path, LEFT_OUT) and not name.endswith((".pyc", ".pyo")):
                yield path


def _content(rules: Rules, path: Path, context: Mapping[str, Any]) -> bytes:
    if path.suffix != SUFFIX:
        return path.read_bytes()
    from jinja2 import TemplateError

    try:
        return (
            rules.templates.template(path.relative_to(rules.templates.root).as_posix())
            .render(context)
            .encode()
        )
    except TemplateError as error:  # of the only texts that are not the package's own
        raise RulesError(f"vendor/team/files/: {error}; correct them") from error


def _paths(
    rules: Rules, parts: list[str], context: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each path that the parts make, with the variables of its `yield` tags.

    Yield nothing if a part is empty.
    """
    if not parts:
        yield "", context
        return
    for name, inner in _names(rules, parts[0], context):
        for rest, innermost in _paths(rules, parts[1:], inner) if name else ():
            yield f"{name}/{rest}" if rest else name, innermost


def _names(
    rules: Rules, part: str, context: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if repeated := YIELD.fullmatch(part):
        before, variable, items, each, after = repeated.groups()
        for item in rules.templates.evaluate(items, context):
            inner = {**context, variable: item}
            yield rules.templates.render(before + each + after, inner), inner
    else:
        yield rules.templates.render(part, context), context


def _matches(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a pattern, as in .gitignore, matches a path or a folder that it is in."""
    places = [PurePosixPath("/", path), *PurePosixPath("/", path).parents]
    return any(place.match(pattern) for place in places for pattern in patterns)
