"""The documentation as a site: `make docs`, whose warnings are errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import ROOT, run, succeed

# What a browser loads of itself; a link waits until somebody follows it.
LOADED = re.compile(
    r"""(?:\bsrc|\bsrcset|<link[^>]*\bhref)=["']?\s*((?:https?:)?//[^"'\s>]+)|url\(["']?((?:https?:)?//[^"')]+)|@import\s+["']([^"']+)"""
)


def foreign(text: str) -> list[str]:
    """Return the addresses of elsewhere that a page or a style loads."""
    return [address for found in LOADED.findall(text) for address in found if address]


@pytest.mark.slow
def test_it_is_built_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    site = tmp_path / "site"
    succeed(run("make", "docs", f"SITE={site}", cwd=ROOT))
    files = [path for path in site.rglob("*") if path.suffix in {".html", ".css", ".js"}]
    assert {path: foreign(path.read_text()) for path in files if foreign(path.read_text())} == {}
    assert "docs/steps.html" in {str(path.relative_to(site)) for path in files}
    drawn = (site / "docs/architecture.html").read_text()
    assert drawn.count('src="data:image/svg+xml;base64,') == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<script src="https://cdn.example/a.js">', ["https://cdn.example/a.js"]),
        ('<link rel="stylesheet" href="//cdn.example/a.css">', ["//cdn.example/a.css"]),
        ("a { background: url(https://cdn.example/a.png) }", ["https://cdn.example/a.png"]),
        ('@import "https://cdn.example/a.css"', ["https://cdn.example/a.css"]),
        ('<a href="https://example.com">', []),
        ('<script src="../_static/a.js">', []),
    ],
)
def test_what_is_loaded_from_elsewhere(text: str, found: list[str]) -> None:
    assert foreign(text) == found
