"""Answers -> pipeline.yml, as a person would write it: what is short stands on one line."""

from __future__ import annotations

from typing import Any

import yaml

from triton_ensemble.facts.terminal import escape

LONGEST = 80  # characters of a list or a mapping that stands on one line
SCHEMA = "yaml-language-server: $schema=vendor/pipeline.schema.json"  # by which editors complete and check it


class Block(dict[str, Any]):
    """A mapping that stands one field a line, however short it is."""


class Dumper(yaml.SafeDumper):
    """A dumper that spreads over lines only what does not fit on one."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent the items of a list in a mapping."""
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:
        """Write what occurs twice twice."""
        return True


def pipeline_yml(answers: dict[str, Any], comments: list[str]) -> str:
    """Return the text of pipeline.yml, with comments at its head, of which the first is for editors."""
    body = yaml.dump(
        _format_one_a_line(answers), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=10**9
    )
    return "".join(f"# {line}\n" for line in (SCHEMA, *comments)) + escape(str(body))


def _format_one_a_line(answers: dict[str, Any]) -> Block:
    """Make the tables of tensors and steps, of inner ensembles too, blocks."""
    block = Block(answers)
    block["tensors"] = Block(answers["tensors"])
    block["steps"] = [
        _format_one_a_line(step) if "steps" in step else Block(step) for step in answers["steps"]
    ]
    return block


def _text(dumper: Dumper, value: str) -> yaml.ScalarNode:
    # In double quotes, the escapes of a terminal are those of YAML.
    style = '"' if escape(value) != value else "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _block(dumper: Dumper, value: Block) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", value.items(), flow_style=False)


def _mapping(dumper: Dumper, value: dict[Any, Any]) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", value.items(), flow_style=_fits(value))


def _sequence(dumper: Dumper, value: list[Any]) -> yaml.SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=_fits(value))


def _fits(value: dict[Any, Any] | list[Any]) -> bool:
    """Return whether a value fits on one line: it is short, and none of its texts has several lines."""
    items = list(value.values()) if isinstance(value, dict) else value
    one_line = not any(isinstance(item, Block) or "\n" in str(item) for item in items)
    return one_line and len(str(value).replace("'", "")) < LONGEST  # Python's quotes YAML need not


Dumper.add_representer(str, _text)
Dumper.add_representer(Block, _block)
Dumper.add_representer(dict, _mapping)
Dumper.add_representer(list, _sequence)
