"""The stages of `stages`: they are about steps that there are, and leave the models what they are."""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.compile.file import steps_of
from triton_ensemble.compile.graph import Graph
from triton_ensemble.compile.rules import Mistake, mistake, nearest
from triton_ensemble.facts.answers import Answers


def stages(graph: Graph, answers: Answers) -> Iterator[Mistake]:
    """Yield what of the stages the image of the pipeline can't be."""
    inside = [each for _, each in steps_of(answers)]
    names = [each["name"] for each in inside if "model" not in each and "steps" not in each]
    models = {model["name"]: model["versions"] for model in graph["models"]}
    for stage, there in (answers.get("stages") or {}).items():
        for name in there.get("steps", {}):
            if name not in names:
                where = ("stages", stage, "steps", name)
                yield mistake(
                    "stage-step",
                    *where,
                    near=nearest(name, names),
                    stage=stage,
                    name=name,
                    names=", ".join(names),
                )
        if there.get("gpu_count") and not answers["gpu_count"]:
            yield mistake("stage-gpu", "stages", stage, "gpu_count", stage=stage)
    for stage in graph["stages"]:
        for name in sorted(stage["models"].keys() ^ models.keys())[:1]:
            yield mistake("stage-models", "stages", stage["name"], stage=stage["name"], name=name)
        for name, versions in stage["models"].items():
            if missing := set(versions) - set(models.get(name, versions)):
                place = ("stages", stage["name"], "steps", name, "versions")
                words = {"stage": stage["name"], "name": name}
                yield mistake("stage-version", *place, version=min(missing), **words)
