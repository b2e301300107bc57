"""Where models run, and what engines are built for."""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.check.dims import is_same_dims
from triton_ensemble.compile.graph import Graph, Step
from triton_ensemble.compile.rules import Mistake, mistake, nearest
from triton_ensemble.facts.answers import Answers


def devices(step: Step, graph: Graph, answers: Answers) -> Iterator[Mistake]:
    """There are GPUs for a step that asks for them, and the config has those that it names."""
    groups, gpus = step["groups"], step.get("gpus", [])
    if gpus and groups:
        yield mistake("gpus-of-groups", "gpus")
    if gpus and step.get("instances") == "none":
        yield mistake("gpus-of-none", "gpus")
    for i, group in enumerate(groups or [{}]):
        place: list[str | int] = ["instances", i] if groups else []
        if group.get("device", step["device"]) == "gpu" and not answers["gpu_count"]:
            yield mistake("no-gpu", *place, "device")


def engine(step: Step, graph: Graph, answers: Answers) -> Iterator[Mistake]:
    """An engine is built for sizes of every dim that varies. Its other sizes equal the dims."""
    if "trtexec" not in step:
        return
    given = step["trtexec"]
    shapes = given.get("shapes", {}) if isinstance(given, dict) else {}
    names, place = [each["name"] for each in step["inputs"]], ["trtexec", "shapes"]
    if step["engine"] != "tensorrt":
        yield mistake("trtexec-backend", "trtexec")
    if "default_model_filename" in step["settings"]:
        yield mistake("trtexec-file", "file")
    for name in map(str, shapes):
        if name not in names:
            words = {"near": nearest(name, names), "name": name, "names": ", ".join(names)}
            yield mistake("trtexec-unknown", *place, name, **words)
    for each in step["inputs"]:
        dims = each["dims"] if each["reshape"] is None else each["reshape"]
        yield from _check_shape(each["name"], dims, shapes.get(each["name"], {}))


def _check_shape(name: str, dims: list[int], span: Answers) -> Iterator[Mistake]:
    place = ["trtexec", "shapes", name]
    if -1 in dims and not span:
        least = [abs(dim) for dim in dims]
        yield mistake("trtexec-open", *place[:2], name=name, dims=dims, least=least)
    for at, given in span.items():
        if not is_same_dims(given, dims):
            yield mistake("trtexec-dims", *place, at, name=name, dims=dims, at=at, given=given)
    if span and len({len(sizes) for sizes in span.values()}) == 1:
        spans = zip(span["min"], span["opt"], span["max"], strict=True)
        if not all(least <= best <= most for least, best, most in spans):
            yield mistake("trtexec-order", *place, name=name, **span)
