"""Keeps what an owner wrote into files that an update moves, removes or replaces."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping

from triton_ensemble.change.aside import Aside
from triton_ensemble.change.git import make_aside_environment
from triton_ensemble.change.owned import FOLLOWS

MAKEFILE = "Makefile"
LOOKED_AT = 8000  # bytes, for a NUL that tells what is no text, as git does
LABELS = ("-L", "before updating", "-L", "last update", "-L", "after updating")


def keep_edits(copy: Aside) -> Iterator[str]:
    """Yield a line for each managed file whose edits are elsewhere now, after putting them there."""
    changes = copy.changes()
    gone = [path for path, status in changes.items() if status == "D"]
    edited = [path for path in gone if _is_edited(copy, path)]
    moves = _find_moves(copy, gone, [p for p, s in changes.items() if s == "A"]) if edited else {}
    for path in edited:
        if (new := moves.get(path)) and _merge(copy, path, new):
            yield f"{path}: is {new} now, with your edits"
        else:
            place = copy.save(path, copy.read_before(path))
            yield f"{path}: is gone; yours, with your edits, is {place}"
    yield from _keep_binaries(copy, changes)
    yield from _keep_makefile(copy)


def renew_generated(copy: Aside, owned: Iterable[str]) -> None:
    """Render the owned files anew that follow pipeline.yml and that nobody has changed. Copier leaves them alone."""
    for path in [path for path in owned if _follows_pipeline(copy, path)]:
        if (new := copy.this_update / path).is_file():
            shutil.copyfile(new, copy.project / path)


def _follows_pipeline(copy: Aside, path: str) -> bool:
    file = copy.project / path
    return file.is_file() and FOLLOWS in file.read_bytes() and not _is_edited(copy, path)


def keep_unknown(copy: Aside, changes: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each file that is about to be replaced and differs from the last commit.

    Git ignores such a file, or was told not to see its changes.
    """
    for path, status in changes.items():
        file, new = copy.root / path, copy.project / path
        if file.is_symlink() or not file.is_file():
            continue
        content = file.read_bytes()
        if content != copy.read_before(path) and (status == "D" or content != new.read_bytes()):
            place = copy.save(path, content)
            yield f"{path}: git did not know this file as it was; yours is {place}"


def _is_edited(copy: Aside, path: str) -> bool:
    last = copy.last_update / path
    return not last.is_file() or last.read_bytes() != copy.read_before(path)


def _find_moves(copy: Aside, gone: list[str], added: list[str]) -> dict[str, str]:
    """Return the new names of files that the template has under another name."""
    trees = copy.tree(copy.last_update), copy.tree(copy.project)
    return copy.moves(*trees, [*gone, *added])


def _merge(copy: Aside, old: str, new: str) -> bool:
    """Merge the edits of a file that moved into the new one; False if it is not text.

    A conflict is left in the file and in the index, as Copier does for files that did not move.
    """
    mine, base, target = copy.work / "mine", copy.last_update / old, copy.project / new
    if not base.is_file() or not target.is_file() or target.is_symlink():
        return False
    mine.write_bytes(copy.read_before(old))
    command = ["git", "merge-file", "-p", *LABELS, str(mine), str(base), str(target)]
    merged = subprocess.run(
        command, cwd=copy.work, env=make_aside_environment(), capture_output=True
    )
    if merged.returncode not in range(128):
        return False
    if merged.returncode:
        mode = f"100{'755' if os.access(target, os.X_OK) else '644'}"
        for stage, version in enumerate((base, mine, target), 1):
            blob = copy.git("hash-object", "-w", "--no-filters", str(version)).decode().strip()
            entry = f"{mode} {blob} {stage}\t{new}\0".encode(errors="surrogateescape")
            copy.git("update-index", "-z", "--index-info", given=entry)
    target.write_bytes(merged.stdout)
    return True


def _keep_binaries(copy: Aside, changes: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each edited and changed file that is not text: Copier takes the template's without a word.

    If the template did not change such a file, the owner's stays.
    """
    for path in [path for path, status in changes.items() if status == "M"]:
        mine, new = copy.read_before(path), copy.project / path
        if b"\0" not in mine[:LOOKED_AT] or not _is_edited(copy, path):
            continue
        last = copy.last_update / path
        if last.is_file() and last.read_bytes() == new.read_bytes():
            new.write_bytes(mine)
        else:
            place = copy.save(path, mine)
            yield f"{path}: is not text, and is now the template's; yours, with your edits, is {place}"


def _keep_makefile(copy: Aside) -> Iterator[str]:
    """Take the template's Makefile where it has conflicts: with `<<<<<<<` in it, `make` does nothing."""
    if any(entry.path == MAKEFILE for entry in copy.list_unmerged()):
        place = copy.save(MAKEFILE, copy.read_before(MAKEFILE))
        (copy.project / MAKEFILE).write_bytes(copy.git("cat-file", "blob", f":3:{MAKEFILE}"))
        yield (
            "Makefile: both you and the template changed the same lines; it is the template's, so that `make` works, "
            f"and yours is {place}; put your lines into it, then `git add Makefile`"
        )
