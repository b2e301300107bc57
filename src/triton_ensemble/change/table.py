"""The effects of an update as a table: a row for each changed file, and for owned files that no step uses now."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from triton_ensemble.change.owned import Change, Owned, find_unneeded, is_code, read_imports

COLUMNS = 80
MANY = 3  # files of a folder that became the same are one row
WORDS = {"A": "new", "M": "changed", "T": "changed", "D": "gone"}
ORDER = ("conflict", "new", "moved", "changed", "gone", "kept")
STUBS = (
    b"# A stub: ",
    b'"stub":',
)  # what the first lines of a file have that its owner is to fill in
TYPES = "src/step_types.py"


class Row(NamedTuple):
    """The change of a file, or of a folder with `/` at the end, with a remark."""

    what: str
    path: str
    note: str = ""


def table(copy: Change, changes: Mapping[str, str], owned: Owned) -> Iterator[str]:
    """Yield the lines of the table, of at most 80 columns where the paths are that short."""
    rows = [*_iter_changed(copy, changes), *_yours(copy, owned)]
    rows = sorted(_group_rows(rows), key=lambda row: (ORDER.index(row.what), row.path))
    width = max((len(row.what) for row in rows), default=0)
    for what, path, note in rows:
        yield from textwrap.wrap(
            f"{path}: {note}" if note else path,
            COLUMNS,
            initial_indent=f"  {what:{width}}  ",
            subsequent_indent=" " * (width + 4),
            break_long_words=False,
            break_on_hyphens=False,
        )


def _iter_changed(copy: Change, changes: Mapping[str, str]) -> Iterator[Row]:
    """Yield a row for each changed file, one for a file that is elsewhere now."""
    conflicts = copy.conflicts()
    moves = {old: new for old, new in copy.find_moved(changes).items() if new not in conflicts}
    yield from (Row("conflict", path) for path in conflicts)
    for path, status in changes.items():
        if path not in conflicts and path not in moves and path not in moves.values():
            stub = status == "A" and _is_stub(copy.project / path)
            yield Row(WORDS[status], path, "a stub, until you fill it in" * stub)
    for (old, new), count in Counter(_folders(*move) for move in moves.items()).items():
        yield Row("moved", f"{old} -> {new}", f"{count} files" * (count > 1))


def _folders(old: str, new: str) -> tuple[str, str]:
    """Return the folders that a file was moved between, as far as its path says; else the paths."""
    was, now = PurePosixPath(old).parts, PurePosixPath(new).parts
    while was[-1:] == now[-1:]:
        was, now = was[:-1], now[:-1]
    if len(was) == len(PurePosixPath(old).parts) or not (was and now):
        return old, new
    return "/".join(was) + "/", "/".join(now) + "/"


def _is_stub(path: Path) -> bool:
    return any(mark in path.read_bytes()[:500] for mark in STUBS)


def _yours(copy: Change, owned: Owned) -> Iterator[Row]:
    """Yield rows of owned code that the update has not touched."""
    for new, old in owned.moved.items():
        yield Row("moved", f"{old} -> {new}", "by you" + _find_other_types(copy, new))
    imports = read_imports(copy.project)
    for path in find_unneeded(imports, owned.left):
        importers = sorted(by for by, modules in imports.items() if path in modules)
        verb = "imports" if len(importers) == 1 else "import"
        by = f"{', '.join(importers)} {verb} it" if importers else "no file imports it"
        was, now = _types(copy)
        note = "yours, but no step uses it now"
        if is_code(path):
            lost = ", ".join(sorted(_words(copy.read_before(path)) & (was - now)))
            note += f"; {by}" + f", and {lost} in it is gone" * bool(lost)
        yield Row("kept", path, note)


def _find_other_types(copy: Change, path: str) -> str:
    """Return which types a moved step imports that have another name now; empty for none."""
    was, now = _types(copy)
    used = sorted(_words(copy.read_before(path)) & (was - now))
    renamed = " or ".join(sorted(now - was))
    return f"; {', '.join(used)} in it is {renamed} now" if used and renamed else ""


def _types(copy: Change) -> tuple[set[str], set[str]]:
    """Return the names of the types of steps' outputs before the update, and after it."""
    new = copy.project / TYPES
    before, after = copy.read_before(TYPES), new.read_bytes() if new.is_file() else b""
    was, now = ({w for w in _words(text) if w.endswith("Outputs")} for text in (before, after))
    return was, now


def _words(source: bytes) -> set[str]:
    return set(re.findall(r"\w+", source.decode(errors="replace")))


def _group_rows(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield one row for many files of a folder with the same change and no remark."""
    count = Counter(map(_kind, rows))
    for row in rows:
        if count[_kind(row)] < MANY:
            yield row
    for (what, folder, _), files in count.items():
        if files >= MANY:
            yield Row(what, f"{folder}/", f"{files} files")


def _kind(row: Row) -> tuple[str, str, str]:
    """Return what became of a file, its folder, and what keeps it apart from others there."""
    folder = "/".join(
        PurePosixPath(row.path).parent.parts[:2]
    )  # model_repository/NAME, src/PACKAGE
    return row.what, folder, "" if folder and not row.note else row.path
