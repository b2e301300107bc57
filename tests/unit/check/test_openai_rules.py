"""The rules on `openai` in pipeline.yml: which tensors its routes may name."""

from __future__ import annotations

from typing import Any

import pytest
from answers_support import GOOD
from support import step

from triton_ensemble.check.pipeline.problems import list_problems
from triton_ensemble.compile.rules import rules

EMBEDDINGS = {"input": "TEXT", "output": "VECTOR"}
RERANK = {"query": "QUERY", "document": "TEXT", "score": "SCORE"}
CLASSIFY = {"input": "TEXT", "probabilities": "VECTOR"}
TENSORS = {
    "TEXT": "STRING[1]",
    "QUERY": {"type": "STRING", "dims": [1], "optional": True},
    "SIZE": {"type": "INT32", "dims": [1], "optional": True},
    "VECTOR": "FP32[3]",
    "SCORE": "FP32[1]",
    "LABEL": "STRING[1]",
    "TOKENS": "INT64[1]",
    "GRID": "FP32[2, 2]",
}
INPUTS = ["TEXT", "QUERY", "SIZE"]


def lines(openai: Any, **more: Any) -> list[str]:
    outputs = [name for name in TENSORS if name not in INPUTS]
    pipeline = {"tensors": TENSORS, "steps": [step("one", INPUTS, outputs)]}
    answers = GOOD | pipeline | {"extras": ["gateway"], "openai": openai} | more
    return [rules().line(each) for each in list_problems(answers, rules())]


@pytest.mark.parametrize(
    "openai",
    [
        {},
        {"embeddings": EMBEDDINGS | {"dimensions": "SIZE", "tokens": "TOKENS"}},
        {"rerank": RERANK | {"tokens": "TOKENS"}},
        {"classify": CLASSIFY | {"label": "LABEL"}},
        {"embeddings": EMBEDDINGS, "rerank": RERANK, "classify": CLASSIFY},
    ],
)
def test_routes_that_the_pipeline_can_serve(openai: Any) -> None:
    assert lines(openai) == []


@pytest.mark.parametrize(
    ("openai", "more", "line"),
    [
        (
            {"embeddings": EMBEDDINGS | {"output": "VEKTOR"}},
            {},
            "openai: embeddings has as output VEKTOR, which is none of the pipeline's outputs; did you mean VECTOR?",
        ),
        (
            {"embeddings": EMBEDDINGS | {"output": "GRID"}},
            {},
            "openai: embeddings has as output GRID of FP32 with dims [2, 2]; "
            "name a tensor of FP32 or FP16 or FP64 with dims [-1] or [SIZE]",
        ),
        (
            {"classify": CLASSIFY | {"label": "TOKENS"}},
            {},
            "openai: classify has as label TOKENS of INT64 with dims [1]; name a tensor of STRING with dims [1]",
        ),
        (
            {"embeddings": {"input": "QUERY", "output": "VECTOR"}},
            {},
            "openai: embeddings sends no TEXT, which the pipeline needs; make it `optional: true`, or drop the route",
        ),
        (
            {"embeddings": EMBEDDINGS},
            {"tensors": TENSORS | {"VECTOR": {"type": "FP32", "dims": [3], "optional": True}}},
            "openai: embeddings returns VECTOR, which a step may leave out; drop its `optional: true`, or drop the route",
        ),
        (
            {"embeddings": EMBEDDINGS},
            {"extras": []},
            "openai: the project has no gateway; add `gateway` to `extras`, or drop `openai`",
        ),
        (
            {"embeddings": EMBEDDINGS},
            {"max_batch_size": 0},
            "openai: a text is a row, and the pipeline has none; write `max_batch_size: 1` or more",
        ),
        ({"embeddings": {"input": "TEXT"}}, {}, "openai embeddings needs its `output`"),
        (
            {"embedings": EMBEDDINGS},
            {},
            "openai has the field `embedings`, which is unknown; did you mean embeddings?",
        ),
        ("x: [", {}, "openai: is not YAML; check its brackets, quotes and indentation"),
    ],
)
def test_routes_that_it_cannot_serve(openai: Any, more: Any, line: str) -> None:
    assert lines(openai, **more) == [line]
