"""Completes the model repository with what is not in git: the code of Python steps, and model files.

It remembers what it built, so that a model that left the pipeline leaves no folder behind: one
without a config stops Triton.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from triton_ensemble.facts.progress import Progress
from triton_ensemble.facts.project import Project, list_foreign
from triton_ensemble.serve import (
    RepositoryError,
    adopted,
    engines,
    model_files,
    published,
)
from triton_ensemble.serve.sources import copies, scripts

LARGE_BYTES = 1 << 20


class Built(NamedTuple):
    """Why a file is there: the target that it is, or was made beside, and the digest of the script that made it."""

    target: Path
    script: str = ""


class Record:
    """The file `.built`: what earlier runs built, by path."""

    def __init__(self, repository: Path) -> None:
        self._repository, self._file = repository, repository / ".built"

    def read(self) -> dict[Path, Built]:
        """Return the files built so far, or raise RepositoryError for a damaged record."""
        try:
            entries = json.loads(self._file.read_text()) if self._file.exists() else {}
            at = self._repository
            return {at / path: Built(at / target, by) for path, (target, by) in entries.items()}
        except (AttributeError, TypeError, ValueError):
            path = self._file.relative_to(self._repository.parent)
            raise RepositoryError(f"{path}: is damaged; remove it") from None

    def write(self, built: dict[Path, Built]) -> None:
        """Record the files that are built now, if they differ.

        An equal record is not written again, because a repository may be read-only or its disk full.
        """
        entries = {
            str(path.relative_to(self._repository)): (
                str(target.relative_to(self._repository)),
                script,
            )
            for path, (target, script) in sorted(built.items())
        }
        text = json.dumps(entries, indent=1)
        if not self._file.exists() or self._file.read_text() != text:
            unfinished = self._file.with_name(f".built.{os.getpid()}")
            try:
                unfinished.write_text(text)
                unfinished.replace(self._file)
            finally:
                unfinished.unlink(missing_ok=True)


def complete(
    project: Project, announce: Callable[[str], None] = print, *, makes_models: bool = True
) -> None:
    """Copy step code, make missing model files, remove what was built for models that are gone.

    Without `makes_models`, no script of models/ runs, which may take long. Raise RepositoryError if a source is
    missing, a script fails or a folder does not belong to the pipeline.
    """
    record, managed = Record(project.repository), _list_managed(project)
    before = {path: built for path, built in record.read().items() if path not in managed}
    sources, makers = copies(project), scripts(project)
    problems = (
        *_find_unconfigured(project),
        *adopted.problems(project),
        *published.problems(project),
        *list_foreign(_select_tree(project, sources).values(), project.root),
        *_find_missing_sources(project, _select_tree(project, sources), makers, before),
    )
    if problems:
        raise RepositoryError("\n".join(problems))
    plans = engines.plans(project)
    wanted = {target: Built(target) for target in (*sources, *plans)} | {
        target: Built(target, model_files.digest(script)) for target, script in makers.items()
    }
    built = {path: b for path, b in before.items() if b == wanted.get(b.target)}
    for path in before.keys() - built.keys():
        _remove(path, project.repository)
    for target, source in sources.items():
        built[target] = wanted[target]
        _copy(source, target)
    record.write(built)
    for target, script in makers.items():
        if makes_models and not target.exists():
            relative = target.relative_to(project.root)
            announce(f"{relative}: made by {script.relative_to(project.root)} ...")
            with Progress(f"Making {relative}"):
                for path in model_files.make(script, target, project.root):
                    built[path] = wanted[target]
                    record.write(built)
    _take_engines(project, plans, built, record)
    _refuse_foreign_folders(project)


def _take_engines(
    project: Project, plans: dict[Path, Path], built: dict[Path, Built], record: Record
) -> None:
    """Copy engines, each with its record, beside the ONNX files that they are of.

    Remove engines of other files.
    """
    for target, plan in plans.items():
        current = engines.is_current(project, target, plan)
        for suffix in (".json", ".plan"):
            if current:
                built[target.with_suffix(suffix)] = Built(target)
                record.write(built)
                _copy(plan.with_suffix(suffix), target.with_suffix(suffix))
            elif built.pop(target.with_suffix(suffix), None):
                _remove(target.with_suffix(suffix), project.repository)
                record.write(built)


def _select_tree(project: Project, sources: dict[Path, Path]) -> dict[Path, Path]:
    """Leave out the store of published versions, of which `published.problems` says what is missing."""
    store = project.root / published.STORE
    return {t: source for t, source in sources.items() if not source.is_relative_to(store)}


def _list_managed(project: Project) -> set[Path]:
    """Return the files that git keeps in folders with built files."""
    return {project.repository / version / "model.py" for version in project.step_modules}


def _find_unconfigured(project: Project) -> Iterator[str]:
    for folder in (project.repository / name for name in project.models):
        if not (folder / "config.pbtxt").is_file():
            path = folder.relative_to(project.root)
            yield f"{path}: has no config.pbtxt; restore it: `git checkout {path}`"


def _find_missing_sources(
    project: Project,
    sources: dict[Path, Path],
    makers: dict[Path, Path],
    built: Collection[Path],
) -> Iterator[str]:
    """Yield a line for each missing source. A model file that its owner put there does not need a script."""
    needed = {t: s for t, s in makers.items() if t in built or not t.exists()}
    targets = {source: target for target, source in (sources | needed).items()}
    for source, target in sorted(targets.items()):
        if not source.is_file():
            what = f"{target.relative_to(project.root)} is made of it; put it there"
            yield f"{source.relative_to(project.root)}: is missing, and {what}"


def _refuse_foreign_folders(project: Project) -> None:
    for folder in project.repository.iterdir():
        if folder.is_dir() and not (folder / "config.pbtxt").exists():
            path = folder.relative_to(project.root)
            raise RepositoryError(f"{path}: is not a model of the pipeline; move it away")


def _copy(source: Path, target: Path) -> None:
    """Copy a file if it differs, or link a large one, which takes no time and no room.

    Smaller files are not linked: a program that writes into model_repository/, as an update does, must not write into
    models/.
    """
    large = source.stat().st_size >= LARGE_BYTES
    if target.exists() and (target.samefile(source) or filecmp.cmp(source, target, shallow=large)):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if not (large and _link(source, target)):
        shutil.copy2(source, target)  # with its time, by which an equal one is known


def _link(source: Path, target: Path) -> bool:
    try:
        target.hardlink_to(source.resolve())
    except OSError:
        return False
    return True


def _remove(path: Path, repository: Path) -> None:
    """Remove a built file, and the folders that it leaves empty."""
    path.unlink(missing_ok=True)
    for folder in path.parents:
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        if folder == repository or not folder.exists() or any(folder.iterdir()):
            return
        folder.rmdir()
