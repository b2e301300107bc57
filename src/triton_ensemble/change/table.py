"""The effects of a change as a table: a row for each changed file, and for owned files that no step uses now."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from triton_ensemble.change.owned import Owned, find_unneeded, is_code, read_imports
from triton_ensemble.change.project import Change
from triton_ensemble.project import is_stub, is_stub_code

COLUMNS = 80
MANY = 3  # files of a folder that became the same are one row
WORDS = {"A": "new", "M": "changed", "D": "gone"}
ORDER = ("conflict", "new", "moved", "changed", "gone", "kept")
TYPES = "src/step_types.py"


class Row(NamedTuple):
    """The change of a file, or of a folder with `/` at the end, with a remark."""

    what: str
    path: str
    note: str = ""


def table(change: Change, owned: Owned) -> Iterator[str]:
    """Yield the lines of the table, of at most 80 columns where the paths are that short."""
    rows = [*_iter_changed(change), *_yours(change, owned)]
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


def _iter_changed(change: Change) -> Iterator[Row]:
    """Yield a row for each changed file, one for a file that is elsewhere now."""
    conflicts = change.conflicts
    moves = {old: new for old, new in change.files.moved.items() if new not in conflicts}
    yield from (Row("conflict", path) for path in conflicts)
    for path in change.statuses.keys() - conflicts - moves.keys() - {*moves.values()}:
        file = change.root / path
        stub = change.statuses[path] == "A" and (is_stub_code(file) or is_stub(file))
        yield Row(WORDS[change.statuses[path]], path, "a stub, until you fill it in" * stub)
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


def _yours(change: Change, owned: Owned) -> Iterator[Row]:
    """Yield rows of owned code that the change has not touched."""
    for new, old in owned.moved.items():
        yield Row("moved", f"{old} -> {new}", "by you" + _find_other_types(change, new))
    imports = read_imports(change.root)
    for path in find_unneeded(imports, owned.left):
        importers = sorted(by for by, modules in imports.items() if path in modules)
        verb = "imports" if len(importers) == 1 else "import"
        by = f"{', '.join(importers)} {verb} it" if importers else "no file imports it"
        was, now = _types(change)
        note = "yours, but no step uses it now"
        if is_code(path):
            lost = ", ".join(sorted(_words(change.read_before(path)) & (was - now)))
            note += f"; {by}" + f", and {lost} in it is gone" * bool(lost)
        yield Row("kept", path, note)


def _find_other_types(change: Change, path: str) -> str:
    """Return which types a moved step imports that have another name now; empty for none."""
    was, now = _types(change)
    used = sorted(_words(change.read_before(path)) & (was - now))
    renamed = " or ".join(sorted(now - was))
    return f"; {', '.join(used)} in it is {renamed} now" if used and renamed else ""


def _types(change: Change) -> tuple[set[str], set[str]]:
    """Return the names of the types of steps' outputs before the change, and after it."""
    new = change.root / TYPES
    before, after = change.read_before(TYPES), new.read_bytes() if new.is_file() else b""
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
