"""Shared by tests: the commands of README.md and of a generated project's README: each one is run by a test."""

from __future__ import annotations

import re
from textwrap import dedent

from support import (
    ROOT,
)

FOLDERS = (".", "docs", "examples/*", "benchmarks/*")
PAGES = sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/*.md"))
README = (ROOT / "README.md").read_text()


def blocks(language: str, text: str = README) -> list[str]:
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL)
    return [dedent(code) if margin else code for margin, code in found]
