"""The notation of the question `flow`, one line a step, of the tensors and steps of pipeline.yml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from triton_ensemble.facts import catalog

Answers = dict[str, Any]
SEPARATORS = re.compile(r'[\x00-\x1f,=#\[\]"\x7f]|->|^-$|  |^\s|\s$|^$')
LAST_WORDS = {"optional", "as", *catalog.read_data_types()}


def format_flow(answers: Mapping[str, Any]) -> str:
    """Return the text of a pipeline, as far as the notation goes.

    A type stands at the first use of its tensor.
    """
    tensors = {str(name): spec for name, spec in answers["tensors"].items()}
    lines = [" ".join(step_words(step, tensors)) for step in answers["steps"]]
    if answers.get("outputs"):
        lines.append("outputs: " + ", ".join(map(name, answers["outputs"])))
    return "\n".join(lines)


def step_words(step: Answers, tensors: Answers) -> Iterator[str]:
    """Yield the words of a step's line, and remove the tensors that it types from `tensors`."""
    instances = step.get("instances")
    head = [step["name"], step.get("backend", f"={step.get('model')}")]
    yield " ".join([*head, *([f"x{instances}"] if isinstance(instances, int) else [])]) + ":"
    yield ", ".join(uses(step["inputs"], tensors))
    yield "->"
    yield ", ".join(uses(step["outputs"], tensors))


def uses(bindings: Any, tensors: Answers) -> Iterator[str]:
    for own in bindings:
        bound = bindings[own] if isinstance(bindings, dict) else own
        bound = bound if isinstance(bound, dict) else {"tensor": bound}
        tensor = None if bound.get("tensor") is None else str(bound["tensor"])
        prefix = [name(own), "="] if tensor is None or str(own) != tensor else []
        yield " ".join([*prefix, "-" if tensor is None else name(tensor), *spec(bound, tensors)])


def spec(bound: Answers, tensors: Answers) -> Iterator[str]:
    """Yield what a use says of its tensor. It gives the type unless a use before it has done so."""
    typed = bound if bound.get("tensor") is None else tensors.pop(str(bound["tensor"]), None)
    if isinstance(typed, str):
        yield typed
    elif typed:
        yield f"{typed['type']}{typed['dims']}"
    if bound.get("tensor") is not None and "dims" in bound:
        yield f"as {bound['dims']}"
    if (typed if isinstance(typed, dict) else bound).get("optional"):
        yield "optional"


def name(given: Any) -> str:
    """Return a name as it is, or as a JSON string if the notation would read it otherwise."""
    text = str(given)
    quoted = SEPARATORS.search(text) or LAST_WORDS & {*text.split(" ")[1:]}
    return json.dumps(text, ensure_ascii=False) if quoted else text
