"""Generated projects on disk, so that no answers are rendered twice while the template stays the same."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import copier
import pytest
from filelock import FileLock
from support import ROOT, Project, run, succeed

HOUR_S = 3600  # a run that began before the template was edited still uses its projects
# Neither a project nor its model repository depends on these.
APART = (".ci/", ".github/", "benchmarks/", "docs/", "tests/")


class ProjectCache:
    """A folder of projects, by the template's content, the answers, and the Python that made them.

    Processes share it: each project is made under a lock, and appears under its name when it is complete.
    """

    def __init__(self, folder: Path) -> None:
        files = [*_list_template()]
        self._folder = folder / _hash_files(files)
        self._lock = FileLock(folder / "lock")
        with self._lock:
            for former in folder.iterdir():
                age = time.time() - former.stat().st_mtime
                if former.is_dir() and former != self._folder and age > HOUR_S:
                    shutil.rmtree(former, ignore_errors=True)
            self._folder.mkdir(exist_ok=True)
            self._folder.touch()
            self.template = self._folder / "template"
            if not self.template.exists():
                _copy_template(files, self._folder / "template.part")
                (self._folder / "template.part").rename(self.template)

    def copy(self, answers: dict[str, Any], folder: Path, *, repository: bool) -> Project:
        """Copy the project of these answers to a folder. With `repository`, after `make repository`."""
        name = hashlib.sha256(json.dumps([answers, repository]).encode()).hexdigest()[:20]
        known = self._folder / name
        if not known.exists():
            with FileLock(known.with_suffix(".lock")):
                if not known.exists():
                    self._make(answers, known.with_suffix(".part"), repository=repository)
                    known.with_suffix(".part").rename(known)
        shutil.copytree(known / "p", folder, symlinks=True)
        return Project(folder)

    def _make(self, answers: dict[str, Any], folder: Path, *, repository: bool) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        if repository:
            succeed(self.copy(answers, folder / "p", repository=False).make("repository"))
        else:
            copier.run_copy(
                str(self.template), folder / "p", data=answers, defaults=True, quiet=True
            )


class Generator:
    """Implement `Generate`: each project is a copy of its own, in a new folder."""

    def __init__(self, cache: ProjectCache, folders: pytest.TempPathFactory) -> None:
        self._cache, self._folders = cache, folders

    def __call__(self, **answers: Any) -> Project:
        return self._cache.copy(answers, self._folders.mktemp("project") / "p", repository=False)

    def complete(self, **answers: Any) -> Project:
        return self._cache.copy(answers, self._folders.mktemp("project") / "p", repository=True)


def _list_template() -> Iterator[str]:
    names = succeed(run("git", "ls-files", "-zco", "--exclude-standard", cwd=ROOT))
    for name in sorted(names.rstrip("\0").split("\0")):
        if not name.startswith(APART) and os.path.lexists(ROOT / name):
            yield name


def _hash_files(names: list[str]) -> str:
    """Return the hash of all that a project is made from: the files, Copier, and the Python with its packages."""
    digest = hashlib.sha256(f"{version('copier')} {version('numpy')} {sys.version}".encode())
    for name in names:
        path = ROOT / name
        content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        digest.update(f"{name}\0{path.lstat().st_mode}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:20]


def _copy_template(names: list[str], folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
