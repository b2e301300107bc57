"""Answers -> pipeline.yml, as a person would write it: what is short stands on one line."""

from __future__ import annotations

from typing import Any

import yaml

WIDTH = 100


class Block(dict[str, Any]):
    """A mapping that stands one field a line, however short it is."""


class Dumper(yaml.SafeDumper):
    """Nothing but lists and mappings that do not fit on a line are spread over several."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def text(dumper: Dumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def block(dumper: Dumper, value: Block) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", value.items(), flow_style=False)


def mapping(dumper: Dumper, value: dict[Any, Any]) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", value.items(), flow_style=fits(value))


def sequence(dumper: Dumper, value: list[Any]) -> yaml.SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=fits(value))


def fits(value: dict[Any, Any] | list[Any]) -> bool:
    """Whether it may stand on one line: it is short, and no text in it has several."""
    items = list(value.values()) if isinstance(value, dict) else value
    flat = not any(isinstance(item, Block) or "\n" in str(item) for item in items)
    return (
        flat and len(str(value).replace("'", "")) < WIDTH - 20
    )  # Python quotes what YAML need not


Dumper.add_representer(str, text)
Dumper.add_representer(Block, block)
Dumper.add_representer(dict, mapping)
Dumper.add_representer(list, sequence)


def spread(answers: dict[str, Any]) -> Block:
    """The tables of tensors and steps one entry a line, of an ensemble and of those inside it."""
    found = Block(answers)
    found["tensors"] = Block(answers["tensors"])
    found["steps"] = [spread(step) if "steps" in step else Block(step) for step in answers["steps"]]
    return found


def pipeline_yml(answers: dict[str, Any], comments: list[str]) -> str:
    body = yaml.dump(
        spread(answers), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=10**9
    )
    return "".join(f"# {line}\n" for line in comments) + str(body)
