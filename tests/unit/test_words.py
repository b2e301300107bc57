"""The linter of words, which `make lint` runs over the documentation."""

from __future__ import annotations

import runpy

import pytest
from support import ROOT

WORDS = runpy.run_path(str(ROOT / "scripts/words.py"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It is plain. A file\nis no\nfolder here.\n", "page.md:2: is no, has no: is no folder"),
        ("It reads one that waits.\n", "page.md:1: one that, those of: one that"),
        ("It works. What is sent is lost.\n", "page.md:1: What or Who opens a sentence: What"),
        ("It is for who waits.\n", "page.md:1: for who, to who: for who"),
    ],
)
def test_a_pattern_is_found_at_its_line(text: str, found: str) -> None:
    assert WORDS["find_excess"]({"page.md": text})[1] == [found]


@pytest.mark.parametrize(
    "text",
    [
        "```text\nA file is no folder.\n```\n",
        "It prints `is no folder`.\n",
        "<!-- is no page -->\n",
        "What is it?\n",
    ],
)
def test_code_and_questions_do_not_count(text: str) -> None:
    assert WORDS["find_excess"]({"page.md": text})[1] == []


def test_only_prose_of_a_generated_page_counts() -> None:
    text = "A sentence.\n\n| A file is no folder |\n"
    assert WORDS["find_excess"]({"docs/cli.md": text})[1] == []
    assert WORDS["find_excess"]({"docs/daily.md": text})[1] == [
        "docs/daily.md:3: is no, has no: is no folder"
    ]


def test_docstrings_comments_and_messages_are_read_where_they_stand() -> None:
    """Code and Jinja do not count."""
    module = 'def f():\n    """Return one that is."""\n    return "one that"\n'
    assert WORDS["keep_docstrings"](module).split("\n") == ["", "Return one that is.", "", ""]
    template = "{% if one that %}\nkey: one that # one that is\nall: ## run one\n"
    assert WORDS["keep_comments"](template).split("\n") == ["", "one that is", "run one", ""]
    table = '# one that\nrule: "one that"\n'
    assert WORDS["keep_messages"](table).split("\n") == ["", 'one that"', ""]
