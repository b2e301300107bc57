"""Shared by tests: named wirings, most of them found by test_properties.py: what refuses each is in refused.yml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def wired(*steps: Any, **answers: Any) -> dict[str, Any]:
    """Return answers of these steps. Tensors of one letter are FP32[4]."""
    letters = {
        name: "FP32[4]" for s in steps for side in ("inputs", "outputs") for name in names(s, side)
    }
    return {"max_batch_size": 8, "tensors": letters, "steps": list(steps), **answers}


def names(step: dict[str, Any], side: str) -> list[str]:
    bindings = step[side] if isinstance(step[side], list) else step[side].values()
    return [
        binding.get("tensor") or "" if isinstance(binding, dict) else binding
        for binding in bindings
    ]


def read_bindings(text: str) -> list[str] | dict[str, str]:
    """Return the tensors of a text, by their names in the model if it has these."""
    words = text.split()
    return dict(word.split("=") for word in words) if "=" in text else words


def read_step(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a step, whose first field is its name, its backend and its tensors."""
    (head, text), *others = fields.items()
    (name, *backend), (inputs, outputs) = head.split(), text.split("->")
    model = {"model": ""} if "model" in fields else {"backend": (backend or ["python"])[0]}
    uses = {"inputs": read_bindings(inputs), "outputs": read_bindings(outputs)}
    more = dict(others) | {key: read_steps(own) for key, own in others if key == "steps"}
    return {"name": name, **model, **uses, **more}


def read_steps(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [read_step(step) for step in steps]


def read_wirings(table: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: wired(*read_steps(own.pop("steps")), **own) for name, own in table.items()}


def read_table(name: str) -> Any:
    return yaml.safe_load(Path(__file__).with_name(name).read_text("utf-8"))


# By name what is refused: `LINE RULE: WORDS` of the answers as YAML, the fields as they are listed here.
REFUSED = read_table("refused.yml")
WIRINGS, MISTAKES = map(read_wirings, read_table("wirings.yml").values())
