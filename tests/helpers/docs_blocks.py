"""The blocks of code in the documentation. Sybil reads them, and runs those that a page does not skip."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import SkipTest

from support import ROOT
from sybil import Document, Region
from sybil.example import SybilFailure
from sybil.parsers.markdown import SkipParser
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer
from sybil.typing import Evaluator

FOLDERS = (".", "docs", "examples/*", "benchmarks/*")
PAGES = sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/*.md"))
FENCED = FencedCodeBlockLexer(".*")


def read_blocks(text: str, *languages: str) -> list[str]:
    """Return the blocks of a Markdown text that are in one of some languages."""
    found = (region.lexemes for region in FENCED(Document(text, "")))
    return [str(block["source"]) for block in found if block["language"] in languages]


def find_failures(
    page: Path, evaluators: defaultdict[str, Evaluator], **names: Any
) -> Iterator[str]:
    """Run the blocks of a page. Yield `file:line: what is wrong` for each that fails.

    `evaluators` has, for each language, the function that runs a block. The blocks of a page share `names`.
    """

    def parse_blocks(document: Document) -> Iterator[Region]:
        for block in FENCED(document):
            run = evaluators[block.lexemes["language"]]
            yield Region(block.start, block.end, block.lexemes["source"], run)

    document = Document.parse(str(page), parse_blocks, SkipParser())
    document.namespace.update(names)
    for block in document:
        where = f"{page.relative_to(ROOT) if page.is_relative_to(ROOT) else page}:{block.line}"
        if block.parsed in [("next", None), ("start", None)]:
            yield f"{where}: write the reason into the comment that skips a block"
        try:
            block.evaluate()
        except SkipTest:
            pass
        except SybilFailure as failure:
            yield f"{where}: {failure.result}"
        except Exception as error:
            yield f"{where}: {type(error).__name__}: {error}"
