"""Shared by tests: docs/troubleshooting.md: a real Triton says each message that the page shows, of a repository made by hand."""

from __future__ import annotations

import re

from support import ROOT

PAGE = (ROOT / "docs/troubleshooting.md").read_text()


def shown(*titles: str) -> list[str]:
    """Return the messages in the page's sections of these titles."""
    sections = dict(section.split("\n", 1) for section in PAGE.split("\n## ")[1:])
    text = "".join(sections[title] for title in titles)
    return re.findall(r"^```text\n(.*?)\n```", text, re.MULTILINE | re.DOTALL)
