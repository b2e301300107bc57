"""The project around the repository"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from triton_ensemble.check.examples import A, Files
from triton_ensemble.check.python_code import compile_file
from triton_ensemble.check.repository import Repository, itself, projects
from triton_ensemble.check.rule import error, warning
from triton_ensemble.check.rules.backends import find_wanted_file
from triton_ensemble.facts.answers import (
    FILE,
    NO_YAML,
    UNMERGED,
    Answers,
    UnreadableAnswers,
    is_unmerged,
    list_changed_answers,
    list_wrong_answers,
    load_yaml,
    read_answers,
    yaml_problem,
)
from triton_ensemble.facts.config import Problem
from triton_ensemble.facts.model_formats import (
    AOTI,
    BY_ENDING,
    IR,
    ONNX,
    TORCH,
)
from triton_ensemble.facts.project import CONFLICTS
from triton_ensemble.facts.reading import DATA_BYTES, read_bytes, read_text

PROJECT: Files = {
    FILE: "ensemble_name: m\nmax_batch_size: 8\nsteps: []\n",
    "pipeline.yml": "ensemble_name: m\nmax_batch_size: 8\nsteps: []\n",
    "model_repository/m/config.pbtxt": A,
}
REQUIRING = "ensemble_name: m\nsteps:\n- {name: m, requirements: [regex]}\n"
APPLY = "`make apply`, or any command that needs it, applies it"
BACK = f"take it back: git checkout {FILE}"
UNLOCKED: Files = {
    FILE: REQUIRING,
    "pipeline.yml": REQUIRING,
    "requirements.lock": "numpy==1.26.4\n",
    "model_repository/m/config.pbtxt": A,
}
CALLS = {
    "extract_model": ONNX,
    "onnx.save": ONNX,
    "onnx.save_model": ONNX,
    "torch.onnx.export": ONNX,
    "torch.jit.save": TORCH,
    "torch._inductor.aoti_compile_and_package": AOTI,
    "openvino.save_model": IR,
    "ov.save_model": IR,
}
BUILD = "import torch\n\n\ndef build(path):\n    torch.jit.save(module(), path)\n"
SCRIPTED: Files = {
    **PROJECT,
    "model_repository/m/config.pbtxt": A.replace("python", "pytorch"),
    "model_repository/m/1/model.pt": "weights",
    "models/m.py": BUILD,
}


@error(
    "pipeline-unreadable",
    of=itself,
    triton="no command of the project works: pipeline.yml or `.copier-answers.yml` can't be read",
    fails={**PROJECT, "pipeline.yml": "ensemble_name: [m\nsteps: []\n"},
    passes=PROJECT,
)
def pipeline_unreadable(repository: Repository) -> Iterator[Problem]:
    """The answers of a project can be read."""
    if not repository.answers:
        yield from _unreadable(repository.root / FILE)
        return
    path = repository.root / "pipeline.yml"
    try:
        read_answers(path)
    except FileNotFoundError:
        return
    except UnreadableAnswers as error:
        yield Problem(path, error.line, error.what, error.instead)


@warning(
    "pipeline-changed",
    of=itself,
    triton="pipeline.yml is not applied yet: Triton still serves what it said before",
    fails={**PROJECT, "pipeline.yml": "ensemble_name: m\nmax_batch_size: 16\nsteps: []\n"},
    passes=PROJECT,
)
def pipeline_changed(repository: Repository) -> Iterator[Problem]:
    """A project is made from what pipeline.yml says."""
    path = repository.root / "pipeline.yml"
    try:
        given, node = read_answers(path)
    except (OSError, UnreadableAnswers):
        return
    lines = {key.value: key.start_mark.line + 1 for key, _ in node.value}
    for name in list_changed_answers(given, repository.answers) if repository.answers else ():
        how = "changed" if name in given else "was left out"
        yield Problem(path, lines.get(name, 1), f"{name} {how} and is not applied yet", APPLY)


@error(
    "apply-conflict",
    of=itself,
    triton="a config is not what pipeline.yml says: it changed the same lines as you, and yours stay",
    fails={**PROJECT, f"{CONFLICTS}/model_repository/m/config.pbtxt": A},
    passes=PROJECT,
)
def apply_conflict(repository: Repository) -> Iterator[Problem]:
    """No lines of a config wait to be merged."""
    for config in (repository.root / CONFLICTS / "model_repository").glob("*/config.pbtxt"):
        path = repository.folder / config.parent.name / config.name
        instead = f"merge {config.relative_to(repository.root)} into it, then remove that file"
        yield Problem(path, 1, "pipeline.yml changed lines that you changed too", instead)


@warning(
    "model-script",
    of=projects,
    triton="a step's backend changed and `models/NAME.py` did not: `make repository` stops with `build(path) "
    "wrote ONNX into model.pt`",
    fails={
        **SCRIPTED,
        "models/m.py": BUILD.replace("jit.save(module()", "onnx.export(module(), (X,)"),
    },
    passes=SCRIPTED,
)
def model_script(repository: Repository) -> Iterator[Problem]:
    """Where calls of `build(path)` in models/NAME.py are known to write one format, it is the backend's."""
    for model in repository.models.values():
        file = Path(find_wanted_file(model))
        wanted = next(iter(BY_ENDING.get(file.suffix, ())), "")
        script = repository.owned / "models" / f"{model.name}.py"
        calls = _find_calls_with_path(script) if wanted and script.is_file() else []
        formats = {CALLS.get(ast.unparse(call.func)) for call in calls}
        if len(formats) == 1 and (wrote := formats.pop()) not in (None, wanted):
            what = f"build(path) writes {wrote} into {file.name}"
            instead = f"write {wanted}, as backend {model.backend} needs"
            yield Problem(script, calls[0].lineno, what, instead)


def _find_calls_with_path(script: Path) -> list[ast.Call]:
    """Return the calls that build(path) gives its path to, or none if it does something else with it."""
    match [node for node in compile_file(script).tree.body if getattr(node, "name", "") == "build"]:
        case [ast.FunctionDef(args=ast.arguments(args=[ast.arg(arg=path)])) as build]:
            nodes = [*ast.walk(build)]
            uses = [node.id for node in nodes if isinstance(node, ast.Name)].count(path)
            found = [
                node
                for node in nodes
                if isinstance(node, ast.Call)
                for _ in _iter_arguments(node, path)
            ]
            return found if len(found) == uses else []
    return []


def _iter_arguments(call: ast.Call, path: str) -> Iterator[ast.expr]:
    """Iterate over the arguments of a call that are the path, or its text."""
    for each in call.args + [keyword.value for keyword in call.keywords]:
        match each:
            case ast.Name(id=name) | ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]):
                if name == path and ast.unparse(call.func) != "str":
                    yield each


def _unreadable(path: Path) -> Iterator[Problem]:
    """Yield what is wrong with the answers from which the project was made, as after a merge with conflicts."""
    try:
        content = read_bytes(path)
        saved = load_yaml(content)
    except FileNotFoundError:
        return
    except NO_YAML as error:
        line = yaml_problem(error)[0] if isinstance(error, yaml.YAMLError) else 1
        if is_unmerged(content):
            yield Problem(path, line, "has a conflict", UNMERGED)
        else:
            yield Problem(path, line, "is not YAML", BACK)
        return
    is_own = isinstance(saved, dict) and "ensemble_name" in saved
    lines = content.decode(errors="replace").splitlines()
    for name in list_wrong_answers(saved) if is_own else ():
        line = next((i for i, text in enumerate(lines, 1) if text.startswith(f"{name}:")), 1)
        yield Problem(path, line, f"{name} is not of the form that the template writes", BACK)


@warning(
    "requirement-unlocked",
    of=projects,
    triton="a step requires a package that `requirements.lock` does not have, so that the image can't be "
    "built: `make lock`",
    fails=UNLOCKED,
    passes={**UNLOCKED, "requirements.lock": "numpy==1.26.4\nregex==2025.1.1\n"},
)
def requirement_unlocked(repository: Repository) -> Iterator[Problem]:
    """The lock has the packages that steps require."""
    lock, pipeline = repository.root / "requirements.lock", repository.root / "pipeline.yml"
    if not lock.is_file() or not pipeline.is_file():
        return
    text = read_text(lock, DATA_BYTES)
    locked = {package_name(name) for name in re.findall(r"^[\w.-]+(?===|\[| @ )", text, re.M)}
    lines = read_text(pipeline).splitlines()
    for requirement in sorted({*_requirements(repository.answers)}):
        if (name := package_name(requirement)) not in locked:
            line = next((i for i, text in enumerate(lines, 1) if requirement in text), 1)
            what = f"{name} is not in requirements.lock, so that `make image` will stop"
            yield Problem(pipeline, line, what, "run `make lock`")


def _requirements(answers: Answers) -> Iterator[str]:
    for step in answers.get("steps") or ():
        yield from map(str, step.get("requirements") or ())
        yield from _requirements(step)


def package_name(requirement: str) -> str:
    """Return the name in a requirement as package indexes compare names: `Foo_Bar[baz]>=1` is foo-bar."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement)[0]).lower()
