"""Changes of a project's files: made in a candidate first, then brought all at once, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from triton_ensemble.change.changes import compare_renderings
from triton_ensemble.change.stage import Stage
from triton_ensemble.deploy.versions import VersionError
from triton_ensemble.deploy.versions.pipeline import Pipeline
from triton_ensemble.facts.project import Project
from triton_ensemble.serve.complete import complete

Changes = Mapping[str, bytes | None]  # new contents by path; None: the file goes
# Of a project, what a candidate has of its own. All else is the project's, by links.
OWN = ("model_repository", "tests", "vendor")


def compute_changes(before: Pipeline, after: Pipeline) -> dict[str, bytes | None]:
    """Return what becomes of the project's files that versions change, with edits of their owner kept.

    Raise VersionError if that needs other models, for example if fused steps are parted, or if edits are in the
    way.
    """
    if before.models != after.models:
        gone = ", ".join(sorted(before.models.keys() ^ after.models.keys()))
        what = f"other steps would be fused then ({gone}); write `fuse: false` at them and run `make apply` first"
        raise VersionError(f"pipeline.yml: {what}")
    changes = compare_renderings(before.root, before.files(), after.files(), before.owned)
    for path in (*changes.conflicts, *changes.replaced):
        what = f"{path}: has edits of yours in lines that versions change"
        raise VersionError(f"{what}; take them back: git checkout {path}")
    return {"pipeline.yml": after.text.encode(), **changes.contents}


def candidate(stage: Stage, root: Path, changes: Changes) -> Project:
    """Return a copy of the project with other files, whose model repository is not complete."""
    folder = stage.folder / "candidate"
    folder.mkdir()
    for entry in root.iterdir():
        if entry.name in OWN:
            shutil.copytree(entry, folder / entry.name, copy_function=_link)
        elif entry.name != ".git" and not entry.name.startswith(".make-update-"):
            (folder / entry.name).symlink_to(entry)
    write(folder, changes)
    return Project.load(folder)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def write(folder: Path, changes: Changes) -> None:
    """Write changes into a candidate, whose files are links, so that the project's own files stay as they are."""
    for path, content in changes.items():
        target = folder / path
        target.unlink(missing_ok=True)
        if content is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def bring(stage: Stage, root: Path, changes: Changes, then: Callable[[], None]) -> None:
    """Give the project the changes, complete its model repository and do what comes `then`.

    If any of this fails or is interrupted, the files are as they were.
    """
    try:
        with stage.write(root, changes):
            complete(Project.load(root))
            then()
    except BaseException:
        complete(Project.load(root))
        raise
    stage.end()
