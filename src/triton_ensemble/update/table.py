"""The effects of an update as a table: each changed file, and owned files that the pipeline no longer uses."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Protocol

from triton_ensemble.update.aside import KEPT
from triton_ensemble.update.git import UpdateError, git

COLUMNS = 80
MANY = 3  # files of a folder that became the same are one row
WORDS = {"A": "new", "M": "changed", "T": "changed", "D": "gone"}
ORDER = ("conflict", "new", "moved", "changed", "gone", "kept")
STUBS = (
    b"# A stub: ",
    b'"stub":',
)  # what the first lines of a file have that its owner is to fill in
TYPES = "src/step_types.py"
CODE = ("steps/", "models/")


class Change(Protocol):
    """A change of a project's files, by an update or by apply."""

    @property
    def root(self) -> Path:
        """The owner's project."""

    @property
    def project(self) -> Path:
        """The folder with the files as they are now."""

    def read_before(self, path: str) -> bytes:
        """Return a file as it was; empty if there was none."""

    def conflicts(self) -> set[str]:
        """Return the files in which the owner and the template changed the same lines."""

    def find_moved(self, files: Iterable[str]) -> dict[str, str]:
        """Return the new paths of files that were elsewhere before, by the old ones."""


class Row(NamedTuple):
    """The change of a file, or of a folder with `/` at the end, with a remark."""

    what: str
    path: str
    note: str = ""


class Owned(NamedTuple):
    """Code of the owner's that steps and models have since this update, or no longer have."""

    new: list[str]
    left: list[str]  # it is still there
    moved: dict[str, str]  # by its name now


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


def compare_owned_code(copy: Change, before: Mapping[str, Any], after: Mapping[str, Any]) -> Owned:
    """Compare the owned files of two versions of the answers, and of the owner's last commit."""
    old, now = ({p for p in a.get("owned") or [] if p.startswith(CODE)} for a in (before, after))
    moved = {new: was for new, was in _find_renames(copy.root).items() if new in now - old}
    of_steps = {
        path.removesuffix(".py") + "/" for path in now
    }  # a folder that has the name of a step
    left = [path for path in old - now - of_steps if (copy.project / path).exists()]
    return Owned(sorted(now - old), sorted(left), moved)


def suggest_renames(owned: Owned, changes: Mapping[str, str]) -> Iterator[str]:
    """Yield what to run where a step was renamed and its code was not."""
    for folder in CODE:
        old, new = (
            [p for p in paths if p.startswith(folder) and _is_code(p)]
            for paths in (owned.left, [path for path in owned.new if changes.get(path) == "A"])
        )
        if old and new:
            yield "Was a step renamed? Then give its code the new name, and in it the type of its outputs:"
            yield f"  git mv -f {' or '.join(old)} {' or '.join(new)}"


def _is_code(path: str) -> bool:
    return path.startswith(CODE) and path.endswith(".py")


def _find_renames(root: Path) -> dict[str, str]:
    """Return the former names of code that its owner has moved, as git detects renames."""
    options = ("-M", "--diff-filter=R", "--name-status", "--format=", "--relative", "-n50", "-z")
    try:
        words = iter(git(root, "log", *options, "--", *CODE).decode(errors="replace").split("\0"))
    except UpdateError:  # a shallow clone lacks what a commit is compared with
        return {}
    found: dict[str, str] = {}
    for word in words:
        if re.fullmatch(r"\n?R\d+", word):
            old, new = next(words), next(words)
            found.setdefault(new, old)
    return found


def _iter_changed(copy: Change, changes: Mapping[str, str]) -> Iterator[Row]:
    """Yield a row for each changed file, one for a file that is elsewhere now."""
    files = {path: s for path, s in changes.items() if not path.startswith(f"{KEPT}/")}
    conflicts = copy.conflicts()
    moves = {old: new for old, new in copy.find_moved(files).items() if new not in conflicts}
    for path, status in files.items():
        if path in conflicts:
            yield Row("conflict", path)
        elif path not in moves and path not in moves.values():
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
    imports = _imports(copy.project)
    for path in _find_unneeded(imports, owned.left):
        importers = sorted(by for by, modules in imports.items() if path in modules)
        verb = "imports" if len(importers) == 1 else "import"
        by = f"{', '.join(importers)} {verb} it" if importers else "no file imports it"
        was, now = _types(copy)
        note = "yours, but no step uses it now"
        if _is_code(path):
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


def _find_unneeded(imports: Mapping[str, set[str]], left: Iterable[str]) -> list[str]:
    """Return what of the code that no step has is not imported by code that the pipeline needs, also over several."""
    waiting = [path for path in imports if _is_code(path) and path not in left]
    needed = set(waiting)
    while waiting:
        more = imports[waiting.pop()] - needed
        needed |= more
        waiting += more
    return [path for path in left if path not in needed]


def _imports(root: Path) -> dict[str, set[str]]:
    """Return the files of steps/, models/ and tests/ that each of them imports."""
    paths = [p for folder in ("steps", "models", "tests") for p in (root / folder).rglob("*.py")]
    files = {".".join(p.relative_to(root).with_suffix("").parts): p for p in sorted(paths)}
    names = {module: str(path.relative_to(root)) for module, path in files.items()}
    return {
        names[module]: {names[other] for other in _list_imported(path, module) & names.keys()}
        for module, path in files.items()
    }


def _list_imported(source: Path, module: str) -> set[str]:
    """Return the modules that a module imports, and the names that it takes from them; nothing if it is not Python."""
    modules: set[str] = set()
    try:
        nodes = [*ast.walk(ast.parse(source.read_bytes()))]
    except (SyntaxError, ValueError):
        return modules
    for node in nodes:
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            modules |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return modules


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
