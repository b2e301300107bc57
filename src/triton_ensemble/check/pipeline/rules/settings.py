"""The other settings of a step's model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from triton_ensemble import catalog
from triton_ensemble.pipeline.rules import Answers, Problem, problem

IMPORTABLE = re.compile(r"([A-Za-z0-9_-]+/)*[A-Za-z0-9_-]+\.py")
METRIC_TAG = re.compile("([A-Za-z0-9][A-Za-z0-9_]*)?")
CPU_ONLY = "FORCE_CPU_ONLY_INPUT_TENSORS"


def use(step: Answers, graph: Answers, answers: Answers) -> Iterator[Problem]:
    """The ensemble may hand a model its rows, and asks for a version that it serves."""
    rows, most = step["max_batch_size"], graph["max_batch_size"]
    if 0 < rows < most and not step["aside"]:
        yield problem("rows", "max_batch_size", most=most, max_batch_size=rows)
    if step["version"] not in (-1, *step["versions"]):
        words = {"version": step["version"], "versions": step["versions"]}
        yield problem("version", "version", **words)


def release(step: Answers, graph: Answers, answers: Answers) -> Iterator[Problem]:
    """The release has what the config says, and what the file is."""
    yield from _newer(f"{step['file']} {step['config']}", answers)


def settings_of_ensemble(given: Answers, graph: Answers, answers: Answers) -> Iterator[Problem]:
    """The release has what the ensemble's config says, and its answers can be cached."""
    limit = "max_inflight_requests " if given.get("max_inflight_requests") else ""
    yield from _newer(limit + given.get("config", ""), answers)
    if given.get("cache") and graph["decoupled"]:
        yield problem("decoupled-cache", "cache")


def _newer(words: str, answers: Answers) -> Iterator[Problem]:
    """Yield what came with a later release, in some words of a config."""
    release = answers["triton_release"]
    for later, row in catalog.table("releases").items():
        for feature in row.get("adds", []):
            if later > release and feature in words:
                yield problem("release", feature=feature, since=later, release=release)


def settings(step: Answers, graph: Answers, answers: Answers) -> Iterator[Problem]:
    """Its cache, its file, its tags and parameters, and whether it declares its tensors."""
    backend, file, adopted = step["backend"], step["file"], step["adopted"]
    if step.get("cache") and step["decoupled"]:
        yield problem("cache-decoupled", "cache")
    if step.get("cache") and "sequence" in step:
        yield problem("cache-sequences", "cache")
    for name in map(str, step.get("metric_tags", {})):
        if not METRIC_TAG.fullmatch(name):
            yield problem("metric-tag", "metric_tags", name, name=name)
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
