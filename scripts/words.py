"""Count the patterns of hard English in the documentation; fail where one exceeds its limit for 1,000 words."""

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md")
WORD = re.compile(r"[A-Za-z][\w'-]*")
NOT_PROSE = re.compile(
    r"^(```|~~~).*?^\1|<!--.*?-->|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL
)
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


def main() -> int:
    """Print the rates, and the places that exceed them."""
    paths = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    rates, places = find_excess({str(path.relative_to(ROOT)): path.read_text() for path in paths})
    print("\n".join((places or []) + rates))
    return bool(places)


if __name__ == "__main__":
    sys.exit(main())
