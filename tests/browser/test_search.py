"""The search of the documentation's site, as `make docs` builds it: it finds what Triton says, with a reader's own names, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect
from support import ROOT, run, succeed
from troubleshooting_support import shown

MESSAGES = shown("A request is refused", "A Python model fails")
OWN = [
    "unexpected shape for input 'PIXELS' for model 'classify'. Expected [-1,64], got [1,65]",
    "inference request batch-size must be <= 32 for 'my_ensemble'",
    "Stub process 'label_0_0' is not healthy.",
    "Failed to process the request(s) for model 'resize_0_1', message: KeyError: 'x'",
]


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Return a page of a browser that the site was built for."""
    site = tmp_path_factory.mktemp("site") / "docs"
    succeed(run("make", "docs", f"SITE={site}", cwd=ROOT))
    context = browser.new_context(base_url=site.as_uri() + "/")
    yield context.new_page()
    context.close()


def found(page: Page, words: str) -> list[str]:
    """Return the pages that a search shows, the best first."""
    page.goto(f"search.html?q={quote(words)}")
    ended = re.compile("Search finished|did not match any")
    expect(page.locator(".search-summary")).to_contain_text(ended)
    links = page.locator("ul.search > li > a")
    addresses = links.evaluate_all("links => links.map(link => link.getAttribute('href'))")
    return [Path(address.split("?")[0].split("#")[0]).stem for address in addresses]


@pytest.mark.parametrize("message", [*MESSAGES, *OWN])
def test_a_message_is_found(page: Page, message: str) -> None:
    assert "troubleshooting" in found(page, message)[:3]


def test_a_few_words_are_all_wanted(page: Page) -> None:
    assert found(page, "shrink halve Kubernetes") == []
