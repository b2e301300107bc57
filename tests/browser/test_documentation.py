"""The documentation's site, as `make docs` builds it: its search finds what Triton says, and no page is cut at two widths."""

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


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["index", "gallery", "steps", "check"])
def test_a_page_fits_and_its_code_is_whole(page: Page, name: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"docs/{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cut = "blocks => blocks.filter(block => block.scrollWidth > block.clientWidth + 1).length"
    assert page.locator("pre").evaluate_all(cut) == 0 or width == 390  # a phone scrolls


def test_a_reader_sees_the_contents_of_a_page_and_copies_its_code(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto("docs/steps.html")
    expect(page.locator(".toc-tree").get_by_text("A step that waits")).to_be_in_viewport()
    expect(page.locator("button.copybtn").first).to_be_attached()


def test_the_sidebar_folds_the_starting_pipelines(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto("docs/index.html")
    folded = page.locator(".sidebar-tree").get_by_role("link", name="Digit screening")
    expect(folded).to_be_hidden()
    page.locator(".sidebar-tree").get_by_role("link", name="Starting pipelines").click()
    expect(folded).to_be_visible()
    expect(page.locator("#starting-pipelines img").first).to_be_visible()
