"""The documentation as a site: `make docs`. Pages are the files that are read on the repository's own page, where they lie."""

from __future__ import annotations

import base64
import re
from html import escape
from pathlib import Path

import mermaidx
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = "https://github.com/org/triton-ensemble-template/blob/main/"

[version] = re.findall(
    '__version__ = "(.*)"', (ROOT / "src/triton_ensemble/__init__.py").read_text()
)
project = "triton-ensemble-template"
html_title = f"{project} {version}"
html_theme = "furo"
html_copy_source = False
html_extra_path = ["llms.txt"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["search.js"]
html_show_copyright = False
extensions = ["myst_parser", "sphinx_copybutton"]
copybutton_prompt_text = "$ "  # of blocks that also show what a command prints
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/*/*.md",
    "examples/*/README.md",
    "benchmarks/*/README.md",
    "benchmarks/peers/results.md",
]
exclude_patterns = [
    ".*",
    "build",
    "dist",
    "hooks",
    "locks",
    "scripts",
    "src",
    "template",
    "tests",
]
myst_heading_anchors = 4
# `make links` asks for what others have, not for this repository, whose address is a placeholder, nor for examples.
linkcheck_ignore = [
    r"https://github\.com/org/",
    r"https?://127\.0\.0\.1",
    r"https?://[^/]*example\.",
]
linkcheck_anchors_ignore_for_url = [r"https://github\.com/"]  # a script of the page makes them
linkcheck_rate_limit_timeout = 60
suppress_warnings = ["misc.highlighting_failure"]  # the comments of config.pbtxt


# Closer together than Mermaid draws, for a column of text is narrow.
CLOSE = {"flowchart": {"nodeSpacing": 20, "rankSpacing": 30, "padding": 12}}
# Labels are measured by a font that not each machine has: a wider one may stand out of its box, and is not cut off.
CUT, WHOLE = "display: table-cell", "display: flex; justify-content: center"


def picture(source: str) -> str:
    """Return a drawing of Mermaid as HTML, which can be read on a phone, too: there it scrolls."""
    drawn = mermaidx.render(source, config=CLOSE).svg()
    drawn = drawn.replace(CUT, WHOLE).replace(
        "<style>", "<style>foreignObject{overflow:visible}", 1
    )
    [width] = re.findall(r'^<svg[^>]* viewBox="\S+ \S+ (\d+)', drawn)
    address = f"data:image/svg+xml;base64,{base64.b64encode(drawn.encode()).decode()}"
    size = f'width="{width}" style="min-width: {int(width) * 7 // 10}px"'
    return f'<div class="drawing"><img alt="{escape(source)}" {size} src="{address}"></div>'


def draw(app: Sphinx, doctree: nodes.document) -> None:
    """Put pictures where Mermaid's blocks are, so that a reader's browser loads and runs nothing for them."""
    for block in [*doctree.findall(nodes.literal_block)]:
        if block.get("language") == "mermaid":
            block.replace_self(nodes.raw("", picture(block.astext()), format="html"))


def link_files(app: Sphinx, doctree: nodes.document) -> None:
    """Let links to files that are not pages lead to the repository."""
    for link in [*doctree.findall(addnodes.download_reference)]:
        folder = (ROOT / f"{app.env.docname}.md").parent
        path = (folder / link["reftarget"]).resolve().relative_to(ROOT)
        link.replace_self(nodes.reference("", "", *link.children, refuri=f"{REPOSITORY}{path}"))


def write_start(app: Sphinx, error: Exception | None) -> None:
    """Let the site's address lead to its first page."""
    start = f'<meta http-equiv="refresh" content="0; url={root_doc}.html">\n'
    Path(app.outdir, "index.html").write_text(start, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("doctree-read", draw)
    app.connect("doctree-read", link_files, priority=0)  # before Sphinx copies these files
    app.connect("build-finished", write_start)
