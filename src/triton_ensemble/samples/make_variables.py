"""What `make sample IMAGE=@cat.jpg NAME=cat` was given: make hands its variables on in MAKEFLAGS, quoted.

So they reach no shell, and a value may have blanks, quotes and `$`.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator

from triton_ensemble.project import Project

OPTIONS = {"NAME": "name", "REQUEST": "request", "OUTPUTS": "outputs"}
WORD = re.compile(r"(?:\\.|[^ \t\\])+", re.DOTALL)


def words_of_make(project: Project, arguments: argparse.Namespace) -> None:
    """Add the variables to the arguments: those named as options are, others are inputs.

    ValueError for one that is neither, nor anything that the Makefile reads.
    """
    inputs = {tensor.name for tensor in project.inputs}
    known = set(re.findall(r"\w+", (project.root / "Makefile").read_text(encoding="utf-8")))
    for name, value in _variables(os.environ.get("MAKEFLAGS", "")):
        if name in OPTIONS:
            setattr(arguments, OPTIONS[name], value)
        elif name in inputs:
            arguments.inputs.append(f"{name}={value}")
        elif name not in known:
            listed = ", ".join(sorted(inputs))
            raise ValueError(f"{name}: is no input of {project.ensemble}; its inputs are {listed}")


def _variables(flags: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each variable of make's command line, as they were typed."""
    for word in WORD.findall(flags.partition("-- ")[2]):
        name, equals, value = re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL).partition("=")
        if equals:
            yield name.rstrip(":+?"), value.replace("$$", "$")
