"""The other settings of a step's model."""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.compile.graph import Graph, Step
from triton_ensemble.compile.rules import Mistake, mistake
from triton_ensemble.facts import catalog
from triton_ensemble.facts.answers import Answers


def use(step: Step, graph: Graph, answers: Answers) -> Iterator[Mistake]:
    """The ensemble may hand a model its rows, and asks for a version that it serves."""
    rows, most = step["max_batch_size"], graph["max_batch_size"]
    if 0 < rows < most and not step["aside"]:
        yield mistake("rows", "max_batch_size", most=most, max_batch_size=rows)
    if step["version"] not in (-1, *step["versions"]):
        yield mistake("version", "version", version=step["version"], versions=step["versions"])


def release(step: Step, graph: Graph, answers: Answers) -> Iterator[Mistake]:
    """The release has a backend for what the file is."""
    release = answers["triton_release"]
    for later, row in catalog.table("releases").items():
        for feature in row.get("adds", []):
            if later > release and feature in str(step["file"]):
                yield mistake("release", "file", feature=feature, since=later, release=release)


def settings(step: Step, graph: Graph, answers: Answers) -> Iterator[Mistake]:
    """Its file, and whether it declares its tensors."""
    backend, file, adopted = step["backend"], step["file"], step["adopted"]
    if backend == "python" and file != "model.py" and not adopted:
        yield mistake("file-generated", "file", file=file)
    must_declare = catalog.table("backends").get(backend, {}).get("must_declare")
    if not step["declare"] and must_declare and not adopted:
        yield mistake("declare", "declare", backend=backend)
