"""The code of steps and models that an owner has, before and after a change: what is new, moved, or no longer used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from triton_ensemble.change import ChangeError
from triton_ensemble.change.git import git, parse_renames
from triton_ensemble.check.calls import nodes

if TYPE_CHECKING:
    from triton_ensemble.change.project import Change

CODE = ("steps/", "models/")
RENAMES = ("-M", "--diff-filter=R", "--name-status", "--format=", "--relative", "-n50", "-z")
TYPES = "src/step_types.py"
# In the first lines of stubs and generated tests, which are renewed while they are as they were generated.
FOLLOWS = b"Yours: until you change it, it follows pipeline.yml."


class OwnedCode:
    """Code of the owner's in a project whose steps and models change, and what imports it."""

    def __init__(self, change: Change) -> None:
        self._change, sides = change, (change.made, change.after)
        old, now = ({p for p in each.get("owned") or [] if p.startswith(CODE)} for each in sides)
        self.new = sorted(now - old)
        self.moved = {
            new: was for new, was in _find_renames(change.root).items() if new in self.new
        }
        # A folder that has the name of a step stays in use.
        of_steps = {path.removesuffix(".py") + "/" for path in now}
        self.left = sorted(p for p in old - now - of_steps if (change.root / p).exists())
        self.imports = _read_imports(change.root)

    def suggest_renames(self) -> Iterator[str]:
        """Yield the commands to run if a step was renamed and its code was not."""
        stubs = [path for path in self.new if self._change.files.statuses.get(path) == "A"]
        for folder in CODE:
            old, new = (
                [p for p in paths if p.startswith(folder) and is_code(p)]
                for paths in (self.left, stubs)
            )
            if old and new:
                yield "Was a step renamed? Then give its code the new name, and in it the type of its outputs:"
                yield f"  git mv -f {' or '.join(old)} {' or '.join(new)}"

    def list_unneeded(self) -> list[str]:
        """Return code that no step has, and that code of steps does not import either, directly or by other files."""
        waiting = [path for path in self.imports if is_code(path) and path not in self.left]
        needed = set(waiting)
        while waiting:
            more = self.imports[waiting.pop()] - needed
            needed |= more
            waiting += more
        return [path for path in self.left if path not in needed]

    @cached_property
    def types(self) -> tuple[set[str], set[str]]:
        """The names of the types of steps' outputs that are gone, and that are new."""
        texts = self._change.read_before(TYPES), self._change.read_now(TYPES)
        was, now = ({w for w in _words(text) if w.endswith("Outputs")} for text in texts)
        return was - now, now - was

    def list_lost_types(self, path: str) -> list[str]:
        """Return the types that are gone, and that a file names."""
        return sorted(_words(self._change.read_before(path)) & self.types[0])


def is_code(path: str) -> bool:
    """Return whether a path of the project is Python code of a step or of a model."""
    return path.startswith(CODE) and path.endswith(".py")


def _words(source: bytes) -> set[str]:
    return set(re.findall(r"\w+", source.decode(errors="replace")))


def _find_renames(root: Path) -> dict[str, str]:
    """Return the former names of code that its owner has moved, as git detects renames."""
    try:
        renames = [*parse_renames(git(root, "log", *RENAMES, "--", *CODE))]
    except ChangeError:  # a shallow clone lacks what a commit is compared with
        return {}
    return {new: old for old, new in reversed(renames)}  # the newest is first


def _read_imports(root: Path) -> dict[str, set[str]]:
    """Return the files of steps/, models/ and tests/ that each of them imports."""
    paths = [p for folder in ("steps", "models", "tests") for p in (root / folder).rglob("*.py")]
    files = {".".join(p.relative_to(root).with_suffix("").parts): p for p in sorted(paths)}
    names = {module: str(path.relative_to(root)) for module, path in files.items()}
    return {
        names[module]: {names[other] for other in _list_imported(path, module) & names.keys()}
        for module, path in files.items()
    }


def _list_imported(source: Path, module: str) -> set[str]:
    """Return the modules that a module imports, and the names that it takes from them.

    The set is empty if the source is not Python.
    """
    modules: set[str] = set()
    for node in nodes(source.read_bytes()):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            modules |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return modules
