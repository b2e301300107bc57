"""The documentation as a site: `make docs`, whose warnings are errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from site_support import foreign
from support import ROOT, run, succeed


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


@pytest.mark.slow
def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    """`make links`, of a page whose one link nobody answers. Those of this repository and of examples are left alone."""
    (tmp_path / "docs").mkdir()
    page = "# A page\n\n[Ours](https://github.com/org/triton-ensemble-template), "
    page += "[an example](https://triton.example.org/), [gone](http://127.0.0.2:1/)\n"
    (tmp_path / "docs/index.md").write_text(page)
    made = run("make", "links", f"DOCS={tmp_path}", f"LINKS={tmp_path / 'links'}", cwd=ROOT)
    assert made.returncode != 0
    assert re.findall(r"broken link: (\S+)", made.stderr) == ["http://127.0.0.2:1/"]
