"""The new content of each managed file after a change of pipeline.yml, with its owner's edits merged in."""

from __future__ import annotations

import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from triton_ensemble.answers import FILE
from triton_ensemble.apply import ApplyError
from triton_ensemble.pipeline.render import File
from triton_ensemble.reading import DATA_BYTES, read_bytes
from triton_ensemble.update.git import make_aside_environment

Files = Mapping[str, File]
# Both write these as a whole: they are merged neither by line nor by hand.
MACHINE = (".json", ".ipynb")


@dataclass
class Changes:
    """New contents of files by path, None for a file that goes, and what became of their owner's edits."""

    contents: dict[str, bytes | None] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)  # new paths by the old ones
    replaced: dict[str, bytes] = field(default_factory=dict)  # edited files that go or are replaced
    conflicts: dict[str, bytes] = field(default_factory=dict)  # rendered, where the owner's stay


def compare_renderings(root: Path, old: Files, new: Files, owned: Collection[str]) -> Changes:
    """Compare two renderings of the project in `root`; files whose owner it is are left alone.

    A file that changed on one side alone gets that change. Where the owner and pipeline.yml changed the same lines,
    the owner's stay.
    """
    changes = Changes()
    for path in sorted(old.keys() | new.keys()):
        before, after = _content(old, path), _content(new, path)
        if before == after or _is_owned(path, owned):
            continue
        file = root / path
        have = read_bytes(file, DATA_BYTES) if file.is_file() else None
        if have == after:
            continue
        if after is None:
            if have is None:
                continue
            changes.contents[path] = None
            if have != before:
                changes.replaced[path] = have
        elif have is None:
            if before is None:  # else the owner has removed it
                changes.contents[path] = after
        elif have == before or path == FILE:
            changes.contents[path] = after
        elif path.endswith(MACHINE):
            changes.contents[path], changes.replaced[path] = after, have
        else:
            merged, conflicts = merge(have, before or b"", after)
            if merged != have:
                changes.contents[path] = merged
            if conflicts:
                changes.conflicts[path] = after
    for former, path in _find_moves(old, new).items():
        if former in changes.contents and changes.contents.get(path) is not None:
            changes.moved[former] = path
            if former in changes.replaced and not path.endswith(MACHINE):
                mine, base, after = (
                    changes.replaced.pop(former),
                    old[former].content,
                    new[path].content,
                )
                changes.contents[path], conflicts = merge(mine, base, after)
                if conflicts:
                    changes.conflicts[path] = after
    return changes


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


def merge(mine: bytes, base: bytes, new: bytes) -> tuple[bytes, bool]:
    """Merge three versions of a text by line; return it, and whether my lines replaced new ones.

    A binary file stays mine.
    """
    with tempfile.TemporaryDirectory() as folder:
        names = [Path(folder, name) for name in ("mine", "base", "new")]
        for path, content in zip(names, (mine, base, new), strict=True):
            path.write_bytes(content)
        command = ["git", "merge-file", "-p", *map(str, names)]
        try:
            run = subprocess.run(
                command, cwd=folder, env=make_aside_environment(), capture_output=True
            )
            if run.returncode:
                command[3:3] = ["--ours"]
                ours = subprocess.run(
                    command, cwd=folder, env=make_aside_environment(), capture_output=True
                )
                return (ours.stdout if ours.returncode == 0 else mine), True
        except FileNotFoundError as error:
            raise ApplyError("apply: git merges your edits of managed files; install it") from error
    return run.stdout, False
