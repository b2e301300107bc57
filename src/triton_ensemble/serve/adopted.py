"""Adopted models: Triton serves them as they are in models/NAME/, with the files beside the config and the version folders.

If the model file is missing, models/NAME.py may make it, for example by a download. Nothing else stands in for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from triton_ensemble.facts.model_formats import POINTER, recognise
from triton_ensemble.facts.project import Adopted, Project


def copies(project: Project) -> Iterator[tuple[Path, Path]]:
    """Yield target and source of each file of the adopted models."""
    for name in project.adopted:
        folder = project.root / "models" / name
        for source in _files(folder):
            yield project.repository / name / source.relative_to(folder), source


def iter_made_files(project: Project) -> Iterator[tuple[Path, Path]]:
    """Yield each model file that models/ has only a script for, and that script."""
    for name, model in project.adopted.items():
        if script := _script(project, model):
            for file in _find_missing_files(project.root / "models" / name, model):
                yield project.repository / name / file, script


def problems(project: Project) -> Iterator[str]:
    """Yield a line for each file that an adopted model lacks, with the place to put it."""
    for name, model in project.adopted.items():
        folder = project.root / "models" / name
        for file in () if _script(project, model) else _find_missing_files(folder, model):
            yield _suggest_place(project, model, Path(name, file))
        for file in model.data:
            if not (folder / file).is_file():
                yield f"models/{name}/{file}: is missing, and the config of {name} names it; put it there"
        for source in sorted((*folder.glob("*"), *folder.glob("*/*"))):
            if source.is_file() and recognise(source).format == POINTER:
                yield f"{source.relative_to(project.root)}: is {POINTER}; run: git lfs pull"


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files that a model is served with, except its config, which is the template's."""
    for root, folders, names in os.walk(folder):
        folders[:] = sorted({*folders} - {"__pycache__"})
        for name in sorted(names):
            if name != "config.pbtxt" or root != str(folder):
                yield Path(root, name)


def _script(project: Project, model: Adopted) -> Path | None:
    script = project.root / "models" / f"{model.script}.py"
    return script if model.file and script.is_file() else None


def _find_missing_files(folder: Path, model: Adopted) -> Iterator[str]:
    """Yield the model files that a model's folder lacks, or the version folders if the file's name is not known."""
    names = [path.name for path in folder.glob("[0-9]*") if path.is_dir()]
    present = [int(name) for name in names if name.isdecimal() and name == str(int(name))]
    for version in model.versions or (max(present, default=1),):
        file = f"{version}/{model.file.lstrip('/')}".rstrip("/")
        if not (folder / file).exists():
            yield file


def _suggest_place(project: Project, model: Adopted, file: Path) -> str:
    path = Path("models", file)
    if (project.repository / file).exists():
        there = (project.repository / file).relative_to(project.root)
        return f"{there}: is ignored by git; move it to {path}"
    if not model.file:
        return f"{path}: is missing; put the version folder there, with a file in it"
    return (
        f"{path}: is missing; put it there, or let build(path) of models/{model.script}.py fetch it"
    )
