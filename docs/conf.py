"""The documentation as a site: `make docs`. Pages are the files that are read on the repository's own page, where they lie."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path

import mermaidx
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = "https://github.com/org/triton-ensemble-template/blob/main/"

project = "triton-ensemble-template"
html_title = project
html_theme = "furo"
html_copy_source = False
html_show_copyright = False
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "examples/*/README.md", "benchmarks/*/README.md"]
exclude_patterns = [
    ".*",
    "CODE_OF_CONDUCT.md",
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


def draw(app: Sphinx, doctree: nodes.document) -> None:
    """Put pictures where Mermaid's blocks are, so that a reader's browser loads and runs nothing for them."""
    for block in [*doctree.findall(nodes.literal_block)]:
        if block.get("language") == "mermaid":
            picture = base64.b64encode(mermaidx.render(block.astext()).svg().encode()).decode()
            source = f"data:image/svg+xml;base64,{picture}"
            image = f'<img style="background: white" alt="{escape(block.astext())}" src="{source}">'
            block.replace_self(nodes.raw("", image, format="html"))


def link_files(app: Sphinx, doctree: nodes.document) -> None:
    """Let links to files that are no pages lead to the repository."""
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
