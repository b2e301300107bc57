"""What else a step says of its model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from triton_ensemble import catalog
from triton_ensemble.pipeline.rules import Answers, Problem, problem

IMPORTABLE = re.compile(r"([A-Za-z0-9_-]+/)*[A-Za-z0-9_-]+\.py")
CPU_ONLY = "FORCE_CPU_ONLY_INPUT_TENSORS"


def settings(step: Answers, graph: Answers, answers: Answers) -> Iterator[Problem]:
    """Its cache, its file, its parameters, and whether it declares its tensors."""
    backend, file, adopted = step["backend"], step["file"], step["adopted"]
    if step.get("cache") and step["decoupled"]:
        yield problem("cache-decoupled", "cache")
    if step.get("cache") and "sequence" in step:
        yield problem("cache-sequences", "cache")
    if backend == "python":
        if not IMPORTABLE.fullmatch(file):
            yield problem("file-name", "file", file=file)
        if file != "model.py" and not adopted:
            yield problem("file-generated", "file", file=file)
        given = step.get("parameters", {}).get(CPU_ONLY, "no")
        if given not in ("yes", "no"):
            words = {"name": CPU_ONLY, "given": json.dumps(given)}
            yield problem("cpu-only", "parameters", CPU_ONLY, **words)
    must_declare = catalog.table("backends").get(backend, {}).get("must_declare")
    if not step["declare"] and must_declare and not adopted:
        yield problem("declare", "declare", backend=backend)
