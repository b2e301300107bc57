"""Dims that are left open"""

from __future__ import annotations

from collections.abc import Iterator

from triton_ensemble.check.dims import is_same_dims
from triton_ensemble.check.ensemble import Ensemble
from triton_ensemble.check.examples import (
    A,
    Files,
    ensemble_text,
    replace_in,
    step_text,
)
from triton_ensemble.check.repository import ensembles
from triton_ensemble.check.rule import error
from triton_ensemble.check.wiring import Meeting, WiredTensor
from triton_ensemble.facts.config import Model, Problem

# An ensemble that leaves the size of its output open, and a step that reads it.
NESTED: Files = {
    "e": ensemble_text(step_text("inner", "X=X", "Y=M"), step_text("b", "X=M", "Y=Y")),
    "inner": ensemble_text(step_text("a", "X=X", "Y=Y")).replace(
        'output { name: "Y" data_type: TYPE_FP32 dims: [4]',
        'output { name: "Y" data_type: TYPE_FP32 dims: [-1]',
    ),
    "a": A,
    "b": A,
}


@error(
    "hidden-shape",
    of=ensembles,
    triton="loads it, and refuses each request: `unexpected shape for input 'x' for model 'y'`. It "
    "compares both with the ensemble's own dims, or those of an inner ensemble, where -1 matches any",
    fails=replace_in(
        NESTED,
        "b",
        'input { name: "X" data_type: TYPE_FP32 dims: [4]',
        'input { name: "X" data_type: TYPE_FP32 dims: [5]',
    ),
    passes=NESTED,
)
def hidden_shape(ensemble: Ensemble) -> Iterator[Problem]:
    """A step reads a tensor with the dims with which it is written, also where a -1 stands between them."""
    meetings = [at for at in ensemble.wiring.meetings if at.first.matches(at.own)]
    for at in meetings:
        if at.side == "input":
            others = [each for each in meetings if each.side == "output" and each.name == at.name]
            written = [each for other in others for each in _iter_declared(ensemble, other)]
            written += [at.first] if at.name in ensemble.inputs else []
            read = [*_iter_declared(ensemble, at)]
            for reader, writer in ((r, w) for r in read for w in written):
                if reader.batches == writer.batches and _never_match(reader.dims, writer.dims):
                    what = f"ensemble tensor {at.name}: {writer.shown} and {reader.shown}"
                    yield ensemble.problem_at(at, what, "make them the same")
                    break


def _never_match(one: list[int], two: list[int]) -> bool:
    return len(one) == len(two) and not is_same_dims(one, two)


def _iter_declared(ensemble: Ensemble, at: Meeting) -> Iterator[WiredTensor]:
    """Iterate over what a composing model declares of a tensor, and the models inside it, if it is an ensemble."""
    yield at.own
    inner = ensemble.models.get(at.own.owner)
    if isinstance(inner, Model) and inner.is_ensemble:
        inside = Ensemble(inner, ensemble.models)
        for each in inside.wiring.meetings:
            if (each.side, each.name) == (at.side, at.key):
                yield from _iter_declared(inside, each)
