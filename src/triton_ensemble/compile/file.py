"""The parts of pipeline.yml, and changes of it that leave the rest of its text as it is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import yaml

Place = tuple[str | int, ...]  # keys and indexes, from the outermost on


def set_values(text: str, edits: Mapping[Place, Any]) -> str:
    """Return the text of a YAML file with other values, which may be new keys of its mappings.

    Raise ValueError if that changes more, for example if an alias repeats a step.
    """
    wanted = _expand_aliases(text)
    for path, value in edits.items():
        reduce(getitem, path[:-1], wanted)[path[-1]] = value
        text = _set_value(text, path, value)
    if _expand_aliases(text) != wanted:
        listed = ", ".join(f"{'.'.join(map(str, path))}: {v}" for path, v in edits.items())
        raise ValueError(f"pipeline.yml repeats parts of itself; change it by hand: {listed}")
    return text


def replace(path: Path, text: str) -> None:
    """Write a file at once: whatever interrupts it, the file is the old one or the new one."""
    path = path.resolve()
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(text.encode())  # with the line ends that it has
    shutil.copymode(path, new)
    new.replace(path)


def steps_of(level: Any, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield all steps with their paths, each ensemble before the steps inside it."""
    for i, step in enumerate(level.get("steps", [])):
        yield (*path, "steps", i), step
        yield from steps_of(step, (*path, "steps", i))


def tensors_of(step: dict[str, Any], *sides: str) -> Iterator[str]:
    """Iterate over the pipeline's tensors that a step reads, writes, or both."""
    for side in sides or ("inputs", "outputs"):
        for binding in bindings(step.get(side, [])).values():
            if binding.get("tensor") is not None:
                yield str(binding["tensor"])


def bindings(side: Any) -> dict[str, dict[str, Any]]:
    """Return a side of a step by the model's own names: the tensor of each, and what is said of it."""
    named = side if isinstance(side, dict) else {each: each for each in side}
    return {
        str(own): bound if isinstance(bound, dict) else {"tensor": bound}
        for own, bound in named.items()
    }


def _expand_aliases(text: str) -> Any:
    """Return the data of a YAML file in which each place has a value of its own."""
    return json.loads(json.dumps(yaml.safe_load(text), default=str))


def _set_value(text: str, path: Place, value: Any) -> str:
    mapping: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for key in path[:-1]:
        mapping = mapping.value[key] if isinstance(key, int) else _values(mapping)[key]
    name, written = str(path[-1]), _dump_value(value)
    if name in _values(mapping):
        old = _values(mapping)[name]
        return text[: old.start_mark.index] + written + text[old.end_mark.index :]
    at, new = _find_insertion(text, mapping, f"{name}: {written}")
    return text[:at] + new + text[at:]


def _values(mapping: Any) -> dict[str, Any]:
    return {key.value: value for key, value in mapping.value}


def _dump_value(value: Any) -> str:
    flow = yaml.safe_dump(value, default_flow_style=True, width=10_000)
    return str(flow.removesuffix("...\n").strip())


def _find_insertion(text: str, mapping: Any, entry: str) -> tuple[int, str]:
    """Return the position and the text of a new key, below the last value of one line."""
    if mapping.flow_style:
        return mapping.value[-1][1].end_mark.index, f", {entry}"
    keys = [key for key, value in mapping.value if _is_one_line(key, value)]
    first = mapping.value[0][0]
    if not keys:
        return first.start_mark.index, f"{entry}\n{' ' * first.start_mark.column}"
    end = text.find("\n", keys[-1].end_mark.index)
    return (end if end >= 0 else len(text)), f"\n{' ' * first.start_mark.column}{entry}"


def _is_one_line(key: Any, value: Any) -> bool:
    inline = isinstance(value, yaml.ScalarNode) or value.flow_style
    return bool(inline and key.start_mark.line == value.end_mark.line)
