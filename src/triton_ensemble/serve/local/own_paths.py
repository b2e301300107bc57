"""Put the paths of the owner's files into Triton's messages about a step, because Triton runs copies of them."""

from __future__ import annotations

import filecmp
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from triton_ensemble.facts.project import Project
from triton_ensemble.serve.sources import copies, list_tree_sources

# A place in a traceback, and the lines of code that are shown of it.
OF_THE_ADAPTER = re.compile(
    r'^  File "[^"\n]*/triton_adapter/[^"\n]*".*\n(?:    .*\n)*', re.MULTILINE
)
# Python names a file with an error of syntax without its folder.
SYNTAX = re.compile(r"(?<=\()(\w+\.py)(?=, line \d+\))")


def own_paths(text: str, repository: Path) -> str:
    """Return a text without the adapter's part of tracebacks, and with paths that begin in the project of a repository."""
    project = Project.find(repository)
    if not project:
        return text
    root = project.root
    tree = list_tree_sources(project)
    own = {
        str(copy): str(_source(copy, source, tree).relative_to(root))
        for copy, source in copies(project).items()
        if source.is_relative_to(root)
    }
    in_it = re.compile(re.escape(str(repository)) + r"/[^\"\n]*?\.py\b")
    text = in_it.sub(lambda path: own.get(path[0], path[0]), OF_THE_ADAPTER.sub("", text))
    steps = {Path(path).name: path for path in own.values() if path.startswith("steps/")}
    return SYNTAX.sub(lambda name: steps.get(name[0], name[0]), text)


def _source(copy: Path, source: Path, tree: Mapping[Path, Path]) -> Path:
    """Return the owner's file of a copy, or the copy itself if it is published and the file was edited since."""
    own = tree.get(copy, copy)
    with suppress(OSError):
        return own if own == source or filecmp.cmp(own, source, shallow=False) else copy
    return copy
