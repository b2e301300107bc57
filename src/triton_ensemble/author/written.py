"""pipeline.yml with one more step, and its comments and layout as they were: ruamel.yaml keeps them."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString
from ruamel.yaml.util import load_yaml_guess_indent

from triton_ensemble.author.draft import Draft


def add_step_text(text: str, told: Draft) -> str:
    """Return the text of a pipeline.yml with the last step of a pipeline, and what that changes of its tables."""
    _, sequence, offset = load_yaml_guess_indent(text)
    below = re.search(r"^tensors:.*\n(?: *(?:#.*)?\n)*( +)", text, re.MULTILINE)
    editor = YAML()
    editor.preserve_quotes, editor.width = True, 10**9
    editor.explicit_start = text.startswith("---")
    editor.indent(mapping=len(below[1]) if below else 2, sequence=sequence, offset=offset)
    pipeline = editor.load(text)
    for tensor, spec in told.answers["tensors"].items():
        if tensor not in pipeline["tensors"]:
            pipeline["tensors"][_one_line(tensor)] = _one_line(spec)
    step = CommentedMap({field: _one_line(value) for field, value in told.steps[-1].items()})
    pipeline["steps"].append(step)
    for tensor in told.answers.get("outputs", []):
        if tensor not in pipeline["outputs"]:
            pipeline["outputs"].append(_one_line(tensor))
    written = StringIO()
    editor.dump(pipeline, written)
    return written.getvalue()


def _one_line(value: Any) -> Any:
    """Return a value that stands on one line.

    Texts that YAML 1.1 would read as something else get quotes.
    """
    if isinstance(value, dict):
        mapping = CommentedMap({_one_line(key): _one_line(each) for key, each in value.items()})
        mapping.fa.set_flow_style()
        return mapping
    if isinstance(value, list):
        items = CommentedSeq([_one_line(each) for each in value])
        items.fa.set_flow_style()
        return items
    return (
        DoubleQuotedScalarString(value) if isinstance(value, str) and _is_misread(value) else value
    )


def _is_misread(text: str) -> bool:
    try:
        return bool(yaml.safe_load(text) != text)
    except yaml.YAMLError:
        return True
