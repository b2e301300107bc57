"""Count the patterns of hard English; fail if one exceeds its limit for 1,000 words.

The limits are the values of well-known projects. Messages write more often "one of": lower that limit when the
messages improve.
"""

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
WORD = re.compile(r"[A-Za-z][\w'-]*")
NOT_PROSE = re.compile(
    r"^(```|~~~).*?^\1|<!--.*?-->|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL
)
JINJA = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
COMMENT = re.compile(r'(?:^|\s)##? ([^\n]*)|"""(.*?)"""', re.DOTALL)
UNREAD = re.compile(r"/(vendor|samples|__pycache__)/|\.(ipynb|json)\b|py\.typed")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
GENERATED = re.compile(r"cli|check|fields|alerts")


class Pattern(NamedTuple):
    """A way to write that slows readers down, and how often it may occur in 1,000 words: as in the docs of well-known projects."""

    name: str
    regex: re.Pattern[str]
    limit: float


START = r"(?:^|(?<=[.!?:] )|(?<=\n\n)|(?<=\n- ))"
PATTERNS = (
    Pattern("is no, has no", re.compile(r"\b(?:is|are|has|have)\s+no\s+(?!longer\b)\w+"), 0.4),
    Pattern(
        "one that, those of",
        re.compile(r"\b(?:one|those|that)\s+(?:that|of|which|who)\b", re.I),
        0.6,
    ),
    Pattern(
        "What or Who opens a sentence",
        re.compile(START + r"(?:What|Who|Whoever|Those)\b(?![^.]*\?)"),
        0.1,
    ),
    Pattern("for who, to who", re.compile(r"\b(?:for|to|of|by)\s+who\b", re.I), 0),
)
FIELD = tuple(pattern.limit for pattern in PATTERNS)


def keep_lines(text: str, kept: dict[int, str]) -> str:
    """Return the kept lines where they were, and the others empty."""
    return "\n".join(kept.get(i, "") for i in range(1, text.count("\n") + 2))


def keep_docstrings(text: str) -> str:
    """Return the docstrings of a module."""
    kept: dict[int, str] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            first, last = node.body[0].lineno, node.body[0].end_lineno
            lines = text.split("\n")[first - 1 : last]
            kept |= dict(enumerate((line.strip(' "') for line in lines), first))
    return keep_lines(text, kept)


def keep_comments(text: str) -> str:
    """Return the comments and docstrings of a template; all of Markdown, but for Jinja."""
    text = JINJA.sub(lambda match: re.sub(r"\S", " ", match[0]), text)
    if "\n## " in text and "\n|---" in text:
        return text
    kept: dict[int, str] = {}
    for match in COMMENT.finditer(text):
        first = text.count("\n", 0, match.start(match.lastindex or 0)) + 1
        kept |= dict(enumerate(map(str.strip, match[match.lastindex or 0].split("\n")), first))
    return keep_lines(text, kept)


def keep_messages(text: str) -> str:
    """Return the messages of a table, a line each."""
    return re.sub(r'^(#.*|[\w-]+: ["\']?)', "", text, flags=re.MULTILINE)


def blank_code(page: str, text: str) -> str:
    """Return the text with code, links and the tables of generated pages as spaces, each line where it was."""
    text = NOT_PROSE.sub(lambda match: re.sub(r"\S", " ", match[0]), text)
    return (
        re.sub(r"^\|.*", "", text, flags=re.MULTILINE)
        if GENERATED.fullmatch(Path(page).stem)
        else text
    )


def find_excess(
    pages: dict[str, str], patterns: tuple[Pattern, ...] = PATTERNS
) -> tuple[list[str], list[str]]:
    """Return a line for each pattern, and the places of the patterns that occur more often than their limits."""
    prose = {page: blank_code(page, text) for page, text in pages.items()}
    words = sum(len(WORD.findall(text)) for text in prose.values())
    rates, places = [], []
    for name, regex, limit in patterns:
        found = [
            f"{page}:{text.count(chr(10), 0, hit.start()) + 1}: {name}: {' '.join(hit[0].split())}"
            for page, text in prose.items()
            for hit in regex.finditer(text)
        ]
        rate = 1000 * len(found) / max(words, 1)
        rates.append(
            f"{name}: {rate:.2f} in 1,000 words, at most {limit} ({len(found)} in {words})"
        )
        places += found if rate > limit else []
    return rates, places


class Kind(NamedTuple):
    """Texts of one kind: their files, how to take the prose out, and the limit of each pattern."""

    files: tuple[str, ...]
    read: Callable[[str], str]
    limits: tuple[float, ...]


KINDS = {
    "documentation": Kind(
        ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md"), str, FIELD
    ),
    "docstrings": Kind(("src/**/*.py",), keep_docstrings, FIELD),
    "messages": Kind(("hooks/catalog/problems.yml",), keep_messages, (0.4, 3.5, 0.1, 0)),
    "generated projects": Kind(
        ("template/**/*", "hooks/stubs/*", "hooks/configs/*"), keep_comments, FIELD
    ),
}


def main() -> int:
    """Print the rates of each kind, and the places that exceed them."""
    excess = False
    for name, kind in KINDS.items():
        paths = [path for pattern in kind.files for path in sorted(ROOT.glob(pattern))]
        texts = {
            str(path.relative_to(ROOT)): kind.read(path.read_text())
            for path in paths
            if path.is_file() and not UNREAD.search(str(path.relative_to(ROOT)))
        }
        limits = zip(PATTERNS, kind.limits, strict=True)
        rates, places = find_excess(texts, tuple(p._replace(limit=most) for p, most in limits))
        print("\n".join([*places, f"{name}:", *rates]))
        excess = excess or bool(places)
    return excess


if __name__ == "__main__":
    sys.exit(main())
