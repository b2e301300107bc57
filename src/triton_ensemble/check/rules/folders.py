"""Folders of the repository"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from triton_ensemble.check.examples import MODEL, A, Files
from triton_ensemble.check.repository import (
    Repository,
    Served,
    iter_folders,
    iter_served_models,
    itself,
    models,
    projects,
    unread_models,
)
from triton_ensemble.check.rule import error, warning
from triton_ensemble.facts.answers import Answers
from triton_ensemble.facts.config import Model, Problem, UnreadModel

# What Triton refuses in the name of a Python model, or its shell would interpret.
UNSAFE = re.compile(r"[^!-~]|[;|&$`<>()\[\]{}\\\"'*?~#!]")
PROJECT: Files = {
    ".copier-answers.yml": "ensemble_name: m\nsteps: []\n",
    "model_repository/m/config.pbtxt": A,
}


@error(
    "broken-link",
    of=iter_folders,
    triton="`failed to stat file x`: a link to nothing, in a model's folder or beside the models",
    fails={"m": A, "m/2": Path("nowhere")},
    passes={"m": A, "m/2": Path("1")},
)
def broken_link(folder: Path) -> Iterator[Problem]:
    """Links in the repository and in the models' folders have a target that exists."""
    for path in sorted(folder.iterdir()):
        if path.is_symlink() and not path.exists():
            what = f"failed to stat file {path.name}, a link to {path.readlink()}"
            yield Problem(path, 1, what, "remove it, or put there what it points to")


@error(
    "config-missing",
    of=itself,
    triton="`Invalid model name: Could not determine backend for model 'x' with no backend in model "
    "configuration.` and ends: each folder must be a model",
    fails={"m": A, "docs/README.md": "About the models.\n"},
    passes={"m": A, "README.md": "About the models.\n"},
)
def config_missing(repository: Repository) -> Iterator[Problem]:
    """Each folder of the repository is a model. In a project it also has a config."""
    for model in unread_models(repository):
        if not model.has_config:
            yield model.problem
    for orphan in _find_orphans(repository):
        if not orphan.has_config:
            name = orphan.folder.name
            what = f"{name} is a folder of no step, and Triton ends at one without a config"
            yield Problem(orphan.path, 1, what, "move its files away")


@warning(
    "config-made-up",
    of=iter_served_models,
    triton="makes a config up by the model file; with `--disable-auto-complete-config` it fails to "
    "open the file",
    fails={"m/1/model.py": MODEL},
    passes=A,
)
def config_made_up(served: Served) -> Iterator[Problem]:
    """A model has a config of its own."""
    model = served.model
    if not model.has_config and not served.repository.answers:
        what = (
            f"{model.name} has no config, which Triton refuses with --disable-auto-complete-config"
        )
        yield model.problem(what, "add it")


@error(
    "name",
    of=models,
    triton="`unexpected directory name 'x' for model 'y', directory name must equal model name`",
    fails='name: "n"\nbackend: "python"\n',
    passes='name: "m"\nbackend: "python"\n',
)
def name(model: Model) -> Iterator[Problem]:
    """If a config has a name, it is the name of its folder."""
    if model.config.name not in ("", model.name):
        what = (
            f"unexpected directory name '{model.name}' for model '{model.config.name}', "
            "directory name must equal model name"
        )
        yield model.problem(what, f'write name: "{model.name}", or rename the folder', "name")


@error(
    "folder-name",
    of=models,
    triton="of a Python model: `Invalid stub name: contains invalid characters` since 26.04; before, "
    "it waits for ever, or loads `a*b` as long as it matches no other folder; `UnicodeEncodeError: 'ascii' codec can't encode character '\\xe4' in position "
    "32: ordinal not in range(128)`",
    fails={"my model": A},
    passes={"my_model": A},
)
def folder_name(model: Model) -> Iterator[Problem]:
    """The folder of a Python model has a name that a shell takes as it is."""
    if model.backend == "python" and UNSAFE.search(model.name):
        what = f"Invalid stub name: '{model.name}' contains invalid characters"
        yield model.problem(what, "use letters, digits, `_`, `-` and `.`", "name")


@warning(
    "folder-of-no-step",
    of=projects,
    triton="a model that no step of the pipeline uses: Triton loads it all the same. Said once "
    "pipeline.yml and the models of its steps have no error",
    fails={**PROJECT, "model_repository/former/config.pbtxt": A},
    passes=PROJECT,
)
def folder_of_no_step(repository: Repository) -> Iterator[Problem]:
    """Each model of a project's repository belongs to a step in pipeline.yml."""
    for model in _find_orphans(repository):
        if isinstance(model, Model) and model.has_config:
            what = (
                f"{model.name} is a model of no step of the pipeline, "
                "and Triton loads it all the same"
            )
            yield model.problem(what, "remove the folder, or add the step to pipeline.yml")


def _find_orphans(repository: Repository) -> Iterator[Model | UnreadModel]:
    """Iterate over the folders that do not belong to a step.

    Yield none while an error may be why they look so.
    """
    used = _list_used(repository)
    faulty = {each.file for each in repository.findings if each.severity == "error"}
    checked = {repository.root / "pipeline.yml", *(each.path for each in used.values())}
    unread = any(isinstance(each, UnreadModel) for each in used.values())
    if repository.answers.get("ensemble_name") not in repository.folders:
        return
    if not unread and faulty.isdisjoint(checked):
        names = sorted(repository.folders.keys() - used.keys())
        yield from (repository.folders[name] for name in names)


def _list_used(repository: Repository) -> dict[str, Model | UnreadModel]:
    """Return the folders that the pipeline names, and the folders of models that its ensembles name."""
    used: dict[str, Model | UnreadModel] = {}
    names = [*_step_names(repository.answers)]
    while names:
        name = names.pop()
        if name in repository.folders and name not in used:
            used[name] = model = repository.folders[name]
            steps = model.steps if isinstance(model, Model) else []
            names += [step.model_name for step in steps]
    return used


def _step_names(answers: Answers) -> Iterator[str]:
    """Iterate over the names of an ensemble, of its steps, and of those inside."""
    yield str(answers.get("ensemble_name", answers.get("name")))
    for step in answers.get("steps") or ():
        yield from _step_names(step)
