"""Explain a rule of the check: what has to hold, what Triton says or does otherwise, and an example.

A finding of the check names its rule: `file:line: severity: rule: what is wrong; what to do`. In the
example, lines with `-` are wrong, and lines with `+` stand in their place.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from difflib import get_close_matches, unified_diff
from textwrap import fill

from triton_ensemble.check.examples import Files, dedent_files, find_config_path
from triton_ensemble.check.rule import Rule
from triton_ensemble.facts.project import ProjectError

WIDTH = 110
CONTEXT = 2  # unchanged lines around a changed one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `triton-ensemble explain`."""
    parser.add_argument("rule", metavar="RULE", help="the id of a rule, such as step-version")


def run(arguments: argparse.Namespace) -> int:
    """Print the text of a rule, or raise ProjectError if the id is unknown."""
    from triton_ensemble.check.rules import RULES

    if not (rule := RULES.get(arguments.rule)):
        near = get_close_matches(arguments.rule, RULES, n=1)
        instead = f"did you mean {near[0]}?" if near else "docs/check.md lists the rules"
        raise ProjectError(f"{arguments.rule}: is not a rule of the check; {instead}")
    print(f"{rule.id}\n\n{describe_rule(rule)}", end="")
    return 0


def describe_rule(rule: Rule) -> str:
    """Return in Markdown what holds, what Triton says otherwise, and the example as a diff."""
    says = fill(rule.triton, WIDTH, break_long_words=False, break_on_hyphens=False)
    holds = f"**{rule.severity.capitalize()}**: {rule.summary}"
    return f"{holds}\n\nOtherwise:\n{says}\n\n```diff\n{''.join(_iter_diff(rule))}```\n"


def _iter_diff(rule: Rule) -> Iterator[str]:
    """Iterate over the lines of the example that fails, with what passes instead."""
    fails, passes = dedent_files(rule.fails), dedent_files(rule.passes)
    for name in dict.fromkeys([*fails, *passes]):
        before, after = _list_lines(fails, name), _list_lines(passes, name)
        if before != after:
            yield f"  # {find_config_path(name)}\n"
            for line in [*unified_diff(before, after, n=CONTEXT)][2:]:
                if not line.startswith("@@"):
                    yield f"{line[0]} {line[1:]}"
                elif not re.match("@@ -[01][ ,]", line):
                    yield "  ...\n"


def _list_lines(files: Files, name: str) -> list[str]:
    content = files.get(name)
    if isinstance(content, str):
        return content.splitlines(keepends=True)
    return [f"(a link to {content})\n"] if content else ["(a folder)\n"] if name in files else []
