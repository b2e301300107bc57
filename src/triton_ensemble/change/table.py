"""The effects of a change as a table: a row for each changed file, and for owned files that no step uses now."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from triton_ensemble.change.owned import OwnedCode, is_code
from triton_ensemble.change.project import Change
from triton_ensemble.facts.project import is_stub, is_stub_code

COLUMNS = 80
MANY = 3  # files of a folder that became the same are one row
WORDS = {"A": "new", "M": "changed", "D": "gone"}
ORDER = ("conflict", "new", "moved", "changed", "gone", "kept")


class Row(NamedTuple):
    """The change of a file, or of a folder with `/` at the end, with a remark."""

    what: str
    path: str
    note: str = ""


def table(change: Change, owned: OwnedCode) -> Iterator[str]:
    """Yield the lines of the table, of at most 80 columns if the paths are short enough."""
    rows = [*_iter_changed(change), *_yours(owned)]
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
    for path in change.files.statuses.keys() - conflicts - moves.keys() - {*moves.values()}:
        file = change.root / path
        stub = change.files.statuses[path] == "A" and (is_stub_code(file) or is_stub(file))
        yield Row(WORDS[change.files.statuses[path]], path, "a stub, until you fill it in" * stub)
    for (old, new), count in Counter(_folders(*move) for move in moves.items()).items():
        yield Row("moved", f"{old} -> {new}", f"{count} files" * (count > 1))


def _folders(old: str, new: str) -> tuple[str, str]:
    """Return the folders that a file was moved between, as far as its path says, or else the paths."""
    was, now = PurePosixPath(old).parts, PurePosixPath(new).parts
    while was[-1:] == now[-1:]:
        was, now = was[:-1], now[:-1]
    if len(was) == len(PurePosixPath(old).parts) or not (was and now):
        return old, new
    return "/".join(was) + "/", "/".join(now) + "/"


def _yours(owned: OwnedCode) -> Iterator[Row]:
    """Yield rows of owned code that the change has not touched."""
    for new, old in owned.moved.items():
        lost, renamed = ", ".join(owned.list_lost_types(new)), " or ".join(sorted(owned.types[1]))
        types = f"; {lost} in it is {renamed} now" if lost and renamed else ""
        yield Row("moved", f"{old} -> {new}", f"by you{types}")
    for path in owned.list_unneeded():
        note = "yours, but no step uses it now"
        if is_code(path):
            by = sorted(each for each, modules in owned.imports.items() if path in modules)
            verb = "imports" if len(by) == 1 else "import"
            lost = ", ".join(owned.list_lost_types(path))
            note += f"; {', '.join(by)} {verb} it" if by else "; no file imports it"
            note += f", and {lost} in it is gone" * bool(lost)
        yield Row("kept", path, note)


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
