"""The new content of each managed file after a change of pipeline.yml, with its owner's edits merged in."""

from __future__ import annotations

import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from triton_ensemble.answers import FILE
from triton_ensemble.change import ApplyError
from triton_ensemble.change.git import git, list_ignored, make_aside_environment
from triton_ensemble.pipeline.render import File
from triton_ensemble.reading import DATA_BYTES, read_bytes

Files = Mapping[str, File]
# The template writes these as a whole: they are merged neither by line nor by hand.
MACHINE = (".json", ".ipynb", ".whl", "vendor/requirements.txt")
MAKEFILE = "Makefile"  # make reads none with markers
MARK, LABELS = b"<<<<<<< yours", ("yours", "before", "the template's")


@dataclass
class Changes:
    """New contents of files by path, None for a file that goes, and what became of their owner's edits."""

    contents: dict[str, bytes | None] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)  # new paths by the old ones
    replaced: dict[str, bytes] = field(default_factory=dict)  # edited files that go or are replaced
    conflicts: dict[str, bytes] = field(default_factory=dict)  # rendered, where the owner's stay
    marked: list[str] = field(default_factory=list)  # where both stand between markers


def compare_renderings(
    root: Path,
    old: Files,
    new: Files,
    owned: Collection[str],
    *,
    moves: Mapping[str, str] | None = None,
    skipped: Collection[str] = (),
    markers: bool = False,
) -> Changes:
    """Compare two renderings of the project in `root`; files whose owner it is are left alone.

    A file that changed on one side alone gets that change. Where the owner and the rendering changed the same lines,
    the owner's stay, or both are between `markers`. `moves` has the new paths of files by the old ones; by default
    these are files of one source. Files that a sparse checkout has `skipped` are read from git's index.
    """
    changes = Changes()
    # No owner writes into a file that git ignores.
    ignored = list_ignored(root, [p for p in new.keys() - old.keys() if (root / p).is_file()])
    for path in sorted(old.keys() | new.keys()):
        before, after = _content(old, path), _content(new, path)
        if before != after and not _is_owned(path, owned):
            versions = read_mine(root, path, skipped), before, after
            _compare(changes, path, versions, path.endswith(MACHINE) or path in ignored, markers)
    for former, path in (_find_moves(old, new) if moves is None else moves).items():
        if former in changes.contents and changes.contents.get(path) is not None:
            changes.moved[former] = path
            if former in changes.replaced and not path.endswith(MACHINE):
                mine = changes.replaced.pop(former)
                _merge_into(changes, path, (mine, old[former].content, new[path].content), markers)
    return changes


def read_mine(root: Path, path: str, skipped: Collection[str]) -> bytes | None:
    """Return a file as its owner has it, None if there is none."""
    file = root / path
    if path in skipped and not file.exists():
        return git(root, "cat-file", "blob", f":./{path}")
    return read_bytes(file, DATA_BYTES) if file.is_file() else None


def _compare(
    changes: Changes,
    path: str,
    versions: tuple[bytes | None, bytes | None, bytes | None],
    is_whole: bool,
    markers: bool,
) -> None:
    """Note what becomes of a file of which the owner's version, the former and the new rendering are given."""
    have, before, after = versions
    if have == after or (have is None and before is not None):  # its owner has removed it
        return
    if after is None or have is None or path == FILE:
        changes.contents[path] = after
        if after is None and have is not None and have != before:
            changes.replaced[path] = have
    elif have == before:
        changes.contents[path] = after
    elif is_whole:
        changes.contents[path], changes.replaced[path] = after, have
    else:
        _merge_into(changes, path, (have, before or b"", after), markers)


def _merge_into(
    changes: Changes, path: str, versions: tuple[bytes, bytes, bytes], markers: bool
) -> None:
    mine, _, after = versions
    merged, conflicts = merge(*versions, markers=markers and path != MAKEFILE)
    if merged != mine or path in changes.contents:
        changes.contents[path] = merged
    if conflicts and MARK in merged and MARK not in mine:
        changes.marked.append(path)
    elif conflicts:
        changes.conflicts[path] = after


def _content(files: Files, path: str) -> bytes | None:
    return files[path].content if path in files else None


def _is_owned(path: str, owned: Collection[str]) -> bool:
    return any(path == each or (each.endswith("/") and path.startswith(each)) for each in owned)


def _find_moves(old: Files, new: Files) -> dict[str, str]:
    """Return the new path of each file that one source rendered under another path before, by the old path."""
    sources: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for path in old.keys() - new.keys():
        sources[old[path].source][0].append(path)
    for path in new.keys() - old.keys():
        sources[new[path].source][1].append(path)
    return {gone[0]: added[0] for gone, added in sources.values() if len(gone) == 1 == len(added)}


def merge(mine: bytes, base: bytes, new: bytes, markers: bool = False) -> tuple[bytes, bool]:
    """Merge three versions of a text by line; return it, and whether my lines replaced new ones.

    With `markers`, both stand in the text then. A binary file stays mine.
    """
    with tempfile.TemporaryDirectory() as folder:
        names = [Path(folder, name) for name in ("mine", "base", "new")]
        for path, content in zip(names, (mine, base, new), strict=True):
            path.write_bytes(content)
        labels = (word for label in LABELS for word in ("-L", label))
        merged = _merge_files(folder, *labels, *map(str, names))
        if merged.returncode and not (markers and merged.returncode in range(128)):
            ours = _merge_files(folder, "--ours", *map(str, names))
            return (ours.stdout if ours.returncode == 0 else mine), True
    return merged.stdout, merged.returncode != 0


def _merge_files(folder: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "merge-file", "-p", *arguments]
    try:
        return subprocess.run(
            command, cwd=folder, env=make_aside_environment(), capture_output=True
        )
    except FileNotFoundError as error:
        raise ApplyError("apply: git merges your edits of managed files; install it") from error
