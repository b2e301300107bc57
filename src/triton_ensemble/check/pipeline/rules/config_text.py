"""`config`: text that config.pbtxt gets verbatim."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from triton_ensemble.compile.graph import Graph, Step
from triton_ensemble.compile.rules import Mistake, mistake
from triton_ensemble.facts import catalog
from triton_ensemble.facts.answers import Answers

TEXT_OR_COMMENT = re.compile(r"\"(\\.|[^\"\\])*\"|'(\\.|[^'\\])*'|#[^\n]*")
INNERMOST_BLOCK = re.compile(r"[{<\[][^{}<>\[\]]*[}>\]]")


def config(step: Step, graph: Graph, answers: Answers) -> Iterator[Mistake]:
    """The text of a model."""
    written = ["name", "max_batch_size", *step["settings"]]
    written += ["platform"] * bool(step["platform"]) + ["backend"] * (step["backend"] != "auto")
    yield from _problems(step["config"], written)


def config_of_ensemble(graph: Graph) -> Iterator[Mistake]:
    """The text of the ensemble."""
    written = ["name", "platform", "max_batch_size", "ensemble_scheduling", *graph["settings"]]
    yield from _problems(graph["given"].get("config", ""), written)


def _problems(text: str, written: Sequence[str]) -> Iterator[Mistake]:
    """Yield what is wrong with a text, beside the fields that the answers write, of which Triton takes only one each.

    Only Triton reads the inside of a field. Texts and comments are taken out first, then blocks,
    from the innermost.
    """
    known, text = catalog.table("config"), TEXT_OR_COMMENT.sub(" 0 ", text)
    while INNERMOST_BLOCK.search(text):
        text = INNERMOST_BLOCK.sub(" : ", text)
    fields = re.findall(r"([A-Za-z_]\w*)\s*:", text)
    for i, field in enumerate(fields):
        single, before = known["fields"].get(field) == "single", fields[:i]
        others = [each for each in (*written, *before) if each in known["schedulers"]]
        if field in known["answers"]:
            yield mistake("config-answer", "config", field=field, answer=known["answers"][field])
        if single and field in written:
            yield mistake("config-written", "config", field=field)
        if field in known["schedulers"] and others:
            batches, words = "dynamic_batching" in written, {"field": field, "other": others[0]}
            yield mistake("config-batching" if batches else "config-schedulers", "config", **words)
