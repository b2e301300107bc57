"""The files beside the configs of adopted models, which a project keeps unchanged in models/NAME/."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from triton_ensemble.author.adopt.refusal import Refused
from triton_ensemble.facts.config import Model
from triton_ensemble.facts.reading import (
    DEEPEST,
    MOST_FILES,
    is_foreign,
    is_outside,
)

# .gitignore would keep models out of git.
NOT_KEPT = {"config.pbtxt", ".gitignore", ".DS_Store", "__pycache__", ".git"}
INSTEAD = "put a copy in its place"
EMPTY_VERSION = """\
Triton serves a model only if it has a version folder, and git keeps a folder only if a file is in it.
"""


def files_of(model: Model) -> list[Path]:
    """Return the files that a model has beside its config, by their paths in its folder.

    Links are followed inside the repository, but not to a folder that they were reached through. Refused if a link leaves it.
    """
    files = _walk(model.folder, model, (), iter(range(MOST_FILES)), set())
    return sorted(path.relative_to(model.folder) for path in files)


def _walk(
    path: Path, model: Model, around: tuple[str, ...], left: Iterator[int], linked: set[str]
) -> Iterator[Path]:
    """Yield a file, or the files in a folder.

    `around` are the folders that it was reached through, without links. Only one link to a folder is followed, because
    copies of more would double at each level.
    """
    real = os.path.realpath(path)
    if is_outside(path, model.folder.parent):
        raise Refused(str(path), f"is a link out of the repository, to {real}", INSTEAD)
    again = real in linked - {*around} and path.is_symlink()
    if next(left, None) is None or len(around) > DEEPEST or again:
        what = f"has more than {MOST_FILES} files, folders more than {DEEPEST} deep, or two links to one folder"
        raise Refused(str(model.folder), what, "pack them into an archive")
    if path.is_file():
        yield path
    elif path.is_dir() and real not in around:
        linked |= {real} if path.is_symlink() else set()
        for inside in path.iterdir():
            if inside.name not in NOT_KEPT:
                yield from _walk(inside, model, (*around, real), left, linked)


def empty_versions(model: Model) -> Iterator[str]:
    """Yield the version folders without a file, including those that git has dropped."""
    filled = {path.parts[0] for path in files_of(model)}
    yield from sorted({str(version) for version in model.versions} - filled)


def needs_folder(ensemble: Model) -> bool:
    """Return whether a project must keep files of an ensemble: its labels, or versions that no answer names."""
    labelled = any(tensor.label_filename for tensor in ensemble.config.output)
    listed = ensemble.config.version_policy.WhichOneof("policy_choice") == "specific"
    return labelled or not (listed or ensemble.versions == [1])


def copy_files(models: Iterable[Model], project: Path) -> None:
    """Copy the files of models to models/NAME/ of a project.

    Raise Refused, before anything is copied, if a file there differs.
    """
    copies = [
        (model.folder / path, project / "models" / model.name / path)
        for model in models
        for path in files_of(model)
    ]
    check_copies(copies, project)
    for source, target in copies:
        if target.exists() and not filecmp.cmp(source, target, shallow=False):
            what = f"exists already, and differs from {source}"
            raise Refused(str(target), what, "keep one of them")
    for source, target in copies:
        if not target.exists():
            copy_file(source, target)
    for model in models:
        for version in empty_versions(model):
            readme = project / "models" / model.name / version / "README.md"
            check_copies([(model.path, readme)], project)
            readme.parent.mkdir(parents=True, exist_ok=True)
            readme.unlink(missing_ok=True)  # it may be a link
            readme.write_text(EMPTY_VERSION)


def check_copies(copies: Iterable[tuple[Path, Path]], project: Path) -> None:
    """Raise Refused if a target is not in the project, by its links, or the sources are larger than the free space."""
    size = 0
    for source, target in copies:
        if is_foreign(target, project):
            what = (
                f"is out of the project, or in .git, by a link to {os.path.realpath(target.parent)}"
            )
            raise Refused(str(target), what, "remove the link")
        size += 0 if target.exists() else source.stat().st_size
    there = next(each for each in (project, *project.absolute().parents) if each.is_dir())
    free = shutil.disk_usage(there).free
    if size > free:
        what = f"has {free} bytes free, and the models' files have {size}"
        raise Refused(str(project), what, "make room there")


def copy_file(source: Path, target: Path) -> None:
    """Copy a file, which is there as a whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.unfinished")
    unfinished.unlink(missing_ok=True)  # it may be a link
    try:
        shutil.copy2(source, unfinished)
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)
