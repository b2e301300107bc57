"""The new content of each managed file after a change of a project, with its owner's edits merged in."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from triton_ensemble.change import ChangeError
from triton_ensemble.change.git import (
    git,
    list_ignored,
    parse_renames,
    run_aside,
)
from triton_ensemble.compile.render import File, write_files
from triton_ensemble.facts.answers import FILE
from triton_ensemble.facts.reading import DATA_BYTES, read_bytes

Files = Mapping[str, File]
# The template writes these as a whole: they are merged neither by line nor by hand.
MACHINE = (".json", ".ipynb", ".whl", "vendor/requirements.txt")
MAKEFILE = "Makefile"  # make reads none with markers
MARK = b"<<<<<<< yours"
LABELS = ("-L", "yours", "-L", "before", "-L", "the template's")
VERSIONS = ("mine", "base", "new")
RENAMES = ("-z", "-M", "-l0", "--diff-filter=R", "--name-status")


@dataclass
class Changes:
    """New contents of files by path, None for a file that goes, and what became of their owner's edits."""

    contents: dict[str, bytes | None] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)  # A, M or D by path
    moved: dict[str, str] = field(default_factory=dict)  # new paths by the old ones
    replaced: dict[str, bytes] = field(default_factory=dict)  # edited files that go or are replaced
    conflicts: dict[str, bytes] = field(default_factory=dict)  # rendered, where the owner's stay
    marked: list[str] = field(default_factory=list)  # where both stand between markers
    markers: bool = False


def compare_renderings(
    root: Path,
    old: Files,
    new: Files,
    owned: Collection[str],
    skipped: Collection[str] = (),
    markers: bool = False,
) -> Changes:
    """Compare two renderings of the project in `root`, except for the files that are `owned`.

    A file that changed on one side alone gets that change. If the owner and the rendering changed the same lines,
    the owner's stay, or both are between `markers`. Files that a sparse checkout has `skipped` are read from git's
    index.
    """
    changes = Changes(markers=markers)
    # No owner writes into a file that git ignores.
    ignored = list_ignored(root, [p for p in new.keys() - old.keys() if (root / p).is_file()])
    for path in sorted(old.keys() | new.keys()):
        before, after = (files[path].content if path in files else None for files in (old, new))
        if before != after and not _is_owned(path, owned):
            have = _read_mine(root, path, skipped)
            is_whole = path.endswith(MACHINE) or path in ignored
            _compare(changes, path, have, before, after, is_whole=is_whole)
    for former, path in _find_moves(old, new):
        if former in changes.contents and changes.contents.get(path) is not None:
            changes.moved[former] = path
            if former in changes.replaced and not path.endswith(MACHINE):
                mine = changes.replaced.pop(former)
                _merge_into(changes, path, mine, old[former].content, new[path].content)
    return changes


def _read_mine(root: Path, path: str, skipped: Collection[str]) -> bytes | None:
    """Return a file as its owner has it, or None if there is none."""
    file = root / path
    if path in skipped and not file.exists():
        return git(root, "cat-file", "blob", f":./{path}")
    return read_bytes(file, DATA_BYTES) if file.is_file() else None


def _compare(
    changes: Changes,
    path: str,
    have: bytes | None,
    before: bytes | None,
    after: bytes | None,
    *,
    is_whole: bool,
) -> None:
    """Note what becomes of a file, by its owner's version and by the former and the new rendering."""
    if have == after or (have is None and before is not None):  # its owner has removed it
        return
    is_edited = have not in (None, before)
    if after is not None and have is not None and is_edited and not is_whole and path != FILE:
        _merge_into(changes, path, have, before or b"", after)
        return
    changes.contents[path] = after
    changes.statuses[path] = "D" if after is None else "A" if have is None else "M"
    if have is not None and is_edited and path != FILE:
        changes.replaced[path] = have


def _merge_into(changes: Changes, path: str, mine: bytes, base: bytes, after: bytes) -> None:
    merged, conflicts = _merge(mine, base, after, changes.markers and path != MAKEFILE)
    if merged != mine or path in changes.contents:
        changes.contents[path] = merged
        changes.statuses.setdefault(path, "M")
    if conflicts and MARK in merged and MARK not in mine:
        changes.marked.append(path)
    elif conflicts:
        changes.conflicts[path] = after


def _is_owned(path: str, owned: Collection[str]) -> bool:
    return any(path == each or (each.endswith("/") and path.startswith(each)) for each in owned)


def _find_moves(old: Files, new: Files) -> list[tuple[str, str]]:
    """Return former and new paths of files that have another path now, as git detects renames."""
    gone, added = old.keys() - new.keys(), new.keys() - old.keys()
    if not gone or not added:
        return []
    with tempfile.TemporaryDirectory() as name, suppress(ChangeError):  # without git there are none
        write_files({path: old[path] for path in gone}, Path(name, "old"))
        write_files({path: new[path] for path in added}, Path(name, "new"))
        said = run_aside(Path(name), "diff", "--no-index", *RENAMES, "old", "new").stdout
        pairs = parse_renames(said)
        return [(was.partition("/")[2], now.partition("/")[2]) for was, now in pairs]
    return []


def _merge(mine: bytes, base: bytes, new: bytes, markers: bool) -> tuple[bytes, bool]:
    """Merge three versions of a text by line. Return the text, and whether my lines replaced new ones.

    With `markers`, the text then has both. A binary file stays mine.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for version, content in zip(VERSIONS, (mine, base, new), strict=True):
            (folder / version).write_bytes(content)
        merged = run_aside(folder, "merge-file", "-p", *LABELS, *VERSIONS)
        if merged.returncode and not (markers and merged.returncode in range(128)):
            ours = run_aside(folder, "merge-file", "-p", "--ours", *VERSIONS)
            return (mine if ours.returncode else ours.stdout), True
    return merged.stdout, merged.returncode != 0
