"""Print the versions of Triton in a text on standard input that came after those in releases.yml, one per line."""

from __future__ import annotations

import re
import sys
from pathlib import Path

TABLE = Path(__file__).parents[1] / "hooks/catalog/releases.yml"
VERSION = re.compile(r"\bv?([0-9]+)\.([0-9]+)\.([0-9]+)\b")


def list_newer(text: str, table: str) -> list[str]:
    """Return the versions in a text that are higher than all in a table, the lowest first."""
    known, found = ({tuple(map(int, each)) for each in VERSION.findall(of)} for of in (table, text))
    return [".".join(map(str, each)) for each in sorted(found) if each > max(known)]


if __name__ == "__main__":
    print(*list_newer(sys.stdin.read(), TABLE.read_text(encoding="utf-8")), sep="\n")
