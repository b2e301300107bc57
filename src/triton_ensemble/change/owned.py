"""The code of steps and models that an owner has, before and after a change: what is new, moved, or no longer used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from triton_ensemble.change import ChangeError
from triton_ensemble.change.git import git
from triton_ensemble.check.calls import nodes

if TYPE_CHECKING:
    from triton_ensemble.change.project import Change

CODE = ("steps/", "models/")
# In the first lines of stubs and generated tests, which are renewed while they are as they were generated.
FOLLOWS = b"Yours: until you change it, it follows pipeline.yml."


class Owned(NamedTuple):
    """Code of the owner's that steps and models have since this change, or no longer have."""

    new: list[str]
    left: list[str]  # it is still there
    moved: dict[str, str]  # by its name now


def compare_owned_code(change: Change) -> Owned:
    """Compare the owned files of two versions of the answers, and of the owner's last commit."""
    sides = (change.made, change.after)
    old, now = ({p for p in each.get("owned") or [] if p.startswith(CODE)} for each in sides)
    moved = {new: was for new, was in _find_renames(change.root).items() if new in now - old}
    # A folder that has the name of a step stays in use.
    of_steps = {path.removesuffix(".py") + "/" for path in now}
    left = [path for path in old - now - of_steps if (change.root / path).exists()]
    return Owned(sorted(now - old), sorted(left), moved)


def suggest_renames(owned: Owned, changes: Mapping[str, str]) -> Iterator[str]:
    """Yield what to run where a step was renamed and its code was not."""
    stubs = [path for path in owned.new if changes.get(path) == "A"]
    for folder in CODE:
        old, new = (
            [p for p in paths if p.startswith(folder) and is_code(p)]
            for paths in (owned.left, stubs)
        )
        if old and new:
            yield "Was a step renamed? Then give its code the new name, and in it the type of its outputs:"
            yield f"  git mv -f {' or '.join(old)} {' or '.join(new)}"


def is_code(path: str) -> bool:
    """Return whether a path of the project is Python code of a step or of a model."""
    return path.startswith(CODE) and path.endswith(".py")


def _find_renames(root: Path) -> dict[str, str]:
    """Return the former names of code that its owner has moved, as git detects renames."""
    options = ("-M", "--diff-filter=R", "--name-status", "--format=", "--relative", "-n50", "-z")
    try:
        words = iter(git(root, "log", *options, "--", *CODE).decode(errors="replace").split("\0"))
    except ChangeError:  # a shallow clone lacks what a commit is compared with
        return {}
    found: dict[str, str] = {}
    for word in words:
        if re.fullmatch(r"\n?R\d+", word):
            old, new = next(words), next(words)
            found.setdefault(new, old)
    return found


def find_unneeded(imports: Mapping[str, set[str]], left: Iterable[str]) -> list[str]:
    """Return what of the code that no step has is not imported by code that the pipeline needs, also over several."""
    waiting = [path for path in imports if is_code(path) and path not in left]
    needed = set(waiting)
    while waiting:
        more = imports[waiting.pop()] - needed
        needed |= more
        waiting += more
    return [path for path in left if path not in needed]


def read_imports(root: Path) -> dict[str, set[str]]:
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
    for node in nodes(source.read_bytes()):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            modules |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return modules
