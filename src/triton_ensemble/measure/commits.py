"""The commit of a project that a gate compares with: its hash, and its files in a folder."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path

from triton_ensemble.change import ChangeError
from triton_ensemble.change.git import git
from triton_ensemble.facts.project import Project


def read_commit(root: Path) -> str:
    """Return the hash of the commit that a project is at, or an empty text if it has changes or is not in git."""
    with suppress(ChangeError):
        if not git(root, "status", "--porcelain", "--", ".", ":(exclude)bench"):
            return _resolve(root, "HEAD")
    return ""


def find_base(root: Path, source: str, commit: str = "") -> str:
    """Return the hash of `commit`, which a file `source` names, or without it of what HEAD shares with that revision.

    Raise ValueError if git does not know it.
    """
    try:
        known = _resolve(root, commit or source)
        return known if commit else git(root, "merge-base", "HEAD", known).decode().strip()
    except ChangeError:
        what = f"commit {commit[:9]}" if commit else "file or commit of that name"
        instead = "fetch it by git, or name another"
        raise ValueError(f"GATE={source}: this clone does not have a {what}; {instead}") from None


def _resolve(root: Path, revision: str) -> str:
    words = ("rev-parse", "--quiet", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    return git(root, *words).decode().strip()


def write_files(project: Project, commit: str, folder: Path) -> None:
    """Write the files of a commit into a folder, and link what git lacks of its models.

    Raise ValueError if that is impossible.
    """
    try:
        packed = git(project.root, "-c", "core.autocrlf=false", "archive", "--format=tar", commit)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
    except (ChangeError, OSError, tarfile.TarError) as error:
        raise ValueError(str(error)) from error
    configs = folder.glob("model_repository/*/config.pbtxt")
    models = [str(config.parent.relative_to(folder)) for config in configs]
    # Git lacks published model files, and in models' folders what a script has made or their owner put there.
    for name in ("versions/models", "model_repository/.built", *models):
        source = project.root / name
        for path in (source, *source.rglob("*")):
            _link_missing(path, folder / path.relative_to(project.root))


def _link_missing(source: Path, target: Path) -> None:
    if not source.is_file() or os.path.lexists(target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(source.resolve())
    except OSError:  # on another disk
        shutil.copy2(source, target)
