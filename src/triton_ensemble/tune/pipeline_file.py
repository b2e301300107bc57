"""Changes of single values in pipeline.yml that leave the rest of its text as it is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

Place = tuple[str | int, ...]


def with_values(text: str, changes: Mapping[Place, Any]) -> str:
    """The text of a YAML file with other values, which may be new keys of mappings that it has.

    ValueError if that can't be done without changing more, as where an alias repeats a step.
    """
    wanted = _read(text)
    for path, value in changes.items():
        _at(wanted, path[:-1])[path[-1]] = value
        text = _with_value(text, path, value)
    if _read(text) != wanted:
        listed = ", ".join(f"{'.'.join(map(str, path))}: {v}" for path, v in changes.items())
        raise ValueError(f"pipeline.yml repeats parts of itself; change it by hand: {listed}")
    return text


def replace(path: Path, text: str) -> None:
    """Writes a file at once: whatever interrupts it, the file is the old one or the new one."""
    path = path.resolve()
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(text.encode())  # with the line ends that it has
    shutil.copymode(path, new)
    new.replace(path)


def _read(text: str) -> Any:
    """Without what an alias shares: each place has a value of its own."""
    return json.loads(json.dumps(yaml.safe_load(text), default=str))


def _at(data: Any, path: Place) -> Any:
    for key in path:
        data = data[key]
    return data


def _with_value(text: str, path: Place, value: Any) -> str:
    mapping: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for key in path[:-1]:
        mapping = mapping.value[key] if isinstance(key, int) else _values(mapping)[key]
    name, written = str(path[-1]), _written(value)
    if name in _values(mapping):
        old = _values(mapping)[name]
        return text[: old.start_mark.index] + written + text[old.end_mark.index :]
    at, new = _insertion(text, mapping, f"{name}: {written}")
    return text[:at] + new + text[at:]


def _values(mapping: Any) -> dict[str, Any]:
    return {key.value: value for key, value in mapping.value}


def _written(value: Any) -> str:
    return (
        yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()
    )


def _insertion(text: str, mapping: Any, entry: str) -> tuple[int, str]:
    """Where a new key goes, and the text of it: below the last value that is one line of text."""
    if mapping.flow_style:
        return mapping.value[-1][1].end_mark.index, f", {entry}"
    keys = [key for key, value in mapping.value if _is_one_line(key, value)]
    first = mapping.value[0][0]
    if not keys:
        return first.start_mark.index, f"{entry}\n{' ' * first.start_mark.column}"
    end = text.find("\n", keys[-1].end_mark.index)
    return (end if end >= 0 else len(text)), f"\n{' ' * first.start_mark.column}{entry}"


def _is_one_line(key: Any, value: Any) -> bool:
    plain = isinstance(value, yaml.ScalarNode) or value.flow_style
    return bool(plain and key.start_mark.line == value.end_mark.line)
